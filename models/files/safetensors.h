// Opens safetensors: a folder with model.safetensors, or with model.safetensors.index.json and its
// shards, or one .safetensors file. Tensors are views into the mapped files, which live as long as
// the SafetensorsFile; opening reads only the heads, and strictly: no holes, no overlaps, no bytes
// after the last tensor, no duplicate names.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/program/weights.h"
#include "models/files/mapped_file.h"

namespace skald {

// From the file's tensor name to skald's; an empty result means that the tensor is not wanted, and
// then its type does not matter either.
using TensorRename = std::function<std::string(std::string_view)>;

class SafetensorsFile : public WeightFile {
 public:
  SafetensorsFile(const std::filesystem::path& folder_or_file, const TensorRename& rename);
  void check_whole() const override;

 private:
  std::vector<std::unique_ptr<MappedFile>> files_;
};

std::shared_ptr<const SafetensorsFile> open_safetensors(const std::filesystem::path& folder_or_file,
                                                        const TensorRename& rename);

}  // namespace skald
