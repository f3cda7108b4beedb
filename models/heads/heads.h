// Heads that guess further tokens from what a model has computed (engine/speculate/head_texts.h):
// the layer that the model's own files have for it (MTP), and heads that were trained for a model
// and are published by themselves (EAGLE-3).
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "engine/speculate/head_texts.h"
#include "models/open.h"

namespace skald {

struct OpenedHead {
  OpenedModel opened;  // its Program has Given ops
  HeadKind kind;
  // Model::taps of the model whose tokens are guessed.
  std::vector<int> taps = {};
};

// The layer of the model's files that predicts a further token. Nothing: they have none. Throws
// Error(Exit::Model) for a broken one.
std::optional<OpenedHead> open_mtp(const OpenedModel& model);

// True if the folder's configuration is that of an EAGLE-3 head.
bool is_eagle3(const std::filesystem::path& folder);

// The head in the folder, for this model, whose embedding it uses if it has none of its own. Throws
// Error(Exit::Model).
OpenedHead open_eagle3(const std::filesystem::path& folder, const OpenedModel& model);

}  // namespace skald
