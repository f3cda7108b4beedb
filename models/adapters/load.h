// Brings LoRA adapters into the names and the layout of a model's tensors, so that the engine can
// add them to its products, or merges them into its weights.
#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "engine/program/adapters.h"
#include "models/open.h"

namespace skald {

struct LoraUse {
  std::filesystem::path path;
  float scale = 1;
};

// The sum of the files, each times its scale, as one adapter of that name. Throws
// Error(Exit::Model) for files that do not fit the model.
Adapter load_adapter(const OpenedModel& opened, std::string name, std::span<const LoraUse> uses);

// Describes the model whose matrices have the adapter's changes in them: W + up · down, rounded
// once to the format of W, which has 16 or 32 bits. A backend, or made_model(), makes the weights.
// Throws Error(Exit::Usage) for matrices in another format.
Model merged_model(const Model& model, std::shared_ptr<const Adapters> adapters);

}  // namespace skald
