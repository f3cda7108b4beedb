// Which files of a repository are needed: pure rules over names, the same for the hub's list and
// for a snapshot in the cache.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace skald {

// One model as GGUF, in one file or several parts.
struct GgufModel {
  std::string type;                // "Q4_K_M", "UD-Q4_K_XL"; empty: the name does not tell
  std::vector<std::string> files;  // sorted
  size_t parts = 1;                // that the names announce: "-00001-of-00003"

  bool whole() const { return files.size() == parts; }
};

// Sorted by their first file. Image encoders (mmproj) and importance matrices are no models.
std::vector<GgufModel> gguf_models(std::span<const std::string> files);

// The model of this type. Without a type: the only model, else Q4_K_M, else the next of a fixed
// order. Throws Error(Exit::Model), which lists the types, where none fits or several fit; `where`
// names the repository.
const GgufModel& choose_gguf(std::span<const GgufModel> models, std::string_view type,
                             std::string_view where);

// False for types whose weights skald has no format for, such as IQ2_XXS.
bool is_readable_type(std::string_view type);

// What a Hugging Face folder needs to be opened: configuration, tokenizer, chat templates and
// weights, without the same weights in other formats. Empty: there are no safetensors.
std::vector<std::string> folder_files(std::span<const std::string> files);

}  // namespace skald
