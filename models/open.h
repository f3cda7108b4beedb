// Opens a model by the path of a Hugging Face folder, of one of its files, or of a GGUF (any part
// of a split one). Reads and checks heads only; weights stay in the mapping until they are used.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "engine/program/model.h"

namespace skald {

class GgufFile;

struct OpenedModel {
  Model model;
  std::filesystem::path path;            // of the folder, or of the GGUF
  std::shared_ptr<const GgufFile> gguf;  // nullptr for a Hugging Face folder
  std::string_view family;
};

OpenedModel open_model(const std::filesystem::path& path);  // throws Error(Exit::Model)

// "did you mean" for a path that does not exist: an entry of the same folder with nearly the same
// name; empty: there is none.
std::string similar_entry(const std::filesystem::path& path);

bool is_gguf(const std::filesystem::path& file);  // by its first bytes

}  // namespace skald
