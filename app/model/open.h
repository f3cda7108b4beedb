// From flags to a model and an executor: shared by the commands.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "app/model/device.h"
#include "engine/cpu/executor.h"
#include "engine/step/backend.h"
#include "models/open.h"
#include "models/text/open_tokenizer.h"

namespace skald {

inline constexpr int64_t kMostThreads = 1024, kMostRows = 65536, kMostSequences = 65536;

struct ModelFlags {
  std::string model;  // path; empty: the bundled model
  std::string type;   // that its weights are quantized to while loading; empty: as they are
  DeviceFlags device;
  RunOptions run{.rows = 0};  // 0: default_rows()
};

void add_model_flag(CLI::App& command, ModelFlags& flags);
// -c, -t, --exact, --type, --rows, --vram, --prefill-copy, --arch-limit
void add_run_flags(CLI::App& command, ModelFlags& flags);
// --shape, and a --type that is also for it; before add_run_flags().
void add_shape_flags(CLI::App& command, std::string& shape, ModelFlags& flags);
void add_device_flag(CLI::App& command, ModelFlags& flags);  // and --require-gpu

// The folder of the bundled model, which is found from the place of the running program: in share/
// beside it (a build folder) or beside its folder (an installation). It may be missing.
std::filesystem::path bundled_model();

// Weights of another type are made where they are loaded, by make_executor().
OpenedModel open_model(const ModelFlags& flags);

// A context beyond what the model was trained for makes noise; that is an Error.
void check_context(const ModelFlags& flags, const ModelConfig& config);

}  // namespace skald
