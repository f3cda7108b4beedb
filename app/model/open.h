// Flags that choose a model and how it runs, and opening the model. Shared by the commands.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "app/model/device.h"
#include "app/model/find_model.h"
#include "app/model/lora_flags.h"
#include "engine/cpu/executor.h"
#include "engine/step/backend.h"
#include "models/open.h"
#include "models/text/open_tokenizer.h"

namespace skald {

class Command;

inline constexpr int64_t kMostThreads = 1024, kMostRows = 65536, kMostSequences = 65536;

struct ModelFlags : ModelName {
  std::string type;  // quantize the weights to this mix while loading; empty: no
  LoraFlags lora;
  DeviceFlags device;
  RunOptions run{.rows = 0};  // 0: default_rows()
  bool headless = false;      // the command can do without a head (OpenedModel::headless)
};

// -m, -hf and --offline, in the group `group` of --help.
void add_model_flag(Command& command, ModelName& name, const std::string& group = "Model");

// The model as an argument without a flag; "" is none. Throws Error(Exit::Usage) where -m names one
// too.
void name_model(std::string& model, const std::string& word);

// -c, -t, --exact, -ctk, -ctv, --type, --lora, --rows, --vram, --prefill-copy, --arch-limit
void add_run_flags(Command& command, ModelFlags& flags);
// --shape, and a --type that serves both --shape and models. Call it before add_run_flags(), which
// then adds no --type.
void add_shape_flags(Command& command, std::string& shape, ModelFlags& flags);
void add_device_flag(Command& command, ModelFlags& flags);  // --tp and --require-gpu too
// --rank, for commands that call serve_other_rank().
void add_rank_flag(Command& command, DeviceFlags& flags);
// --devices and --split. `help` says what several GPUs are for.
void add_devices_flags(Command& command, DeviceFlags& flags, const std::string& help);

// The folder of the bundled model, found from the place of the running program: in share/ beside it
// (a build folder) or beside its folder (an installation). The folder may not exist.
std::filesystem::path bundled_model();

// Throws Error(Exit::Model) for a model without a head.
void check_head(const OpenedModel& opened);

// Opens the model's files. With --type, the weights are only described here: make_executor()
// quantizes them.
OpenedModel open_model(const ModelFlags& flags);

// The name of its folder or file, as results call the model.
std::string model_name(const OpenedModel& opened);

// Throws Error(Exit::Usage) if -c is larger than the context the model was trained for, where the
// output would be noise.
void check_context(const ModelFlags& flags, const ModelConfig& config);

}  // namespace skald
