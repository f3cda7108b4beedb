// Opens a model from the path of a Hugging Face folder, of one of its files, or of a GGUF (any part
// of a split one). Only headers are read and checked; weights stay in the mapping until they are
// used.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "engine/program/model.h"

namespace skald {

class GgufFile;
struct Family;

struct OpenedModel {
  Model model;
  std::filesystem::path path;            // the folder or the GGUF
  std::shared_ptr<const GgufFile> gguf;  // nullptr for a Hugging Face folder
  std::string_view family;
  const Family* description = nullptr;  // of that name
  std::string quantized_by = {};        // another tool's quant_method; empty: none
  // The folder has no head, as models for vectors are saved: hidden rows can be read, but logits
  // say nothing.
  bool headless = false;
  bool has_vision = false;  // the folder also has a vision part, which is not read
  bool has_audio = false;   // the same, for sound
  std::shared_ptr<const Adapters> merged = nullptr;  // adapters that are parts of the weights
};

// Throws Error(Exit::Model), of which UnknownFamily is one (models/families/family.h).
OpenedModel open_model(const std::filesystem::path& path);

// The tensors of the opened model's files that belong to `layer` or to no layer. The layer may be
// one beyond the configuration's number, which open_model() leaves out.
std::shared_ptr<const WeightFile> tensors_of_layer(const OpenedModel& model, int layer);

// For "did you mean": the model in the same folder with the most similar name; empty: none is
// similar.
std::string similar_entry(const std::filesystem::path& path);

bool is_gguf(const std::filesystem::path& file);  // detected by its first bytes

// True for a GGUF, a .safetensors file, and a folder with a config.json or a GGUF. Opening may
// still fail.
bool seems_a_model(const std::filesystem::path& path);

}  // namespace skald
