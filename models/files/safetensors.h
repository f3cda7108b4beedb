// Opens safetensors: a folder with model.safetensors, a folder with model.safetensors.index.json
// and its shards, or one .safetensors file. Tensors are views into the mapped files, which live as
// long as the SafetensorsFile. Opening reads only the headers and checks them strictly: no holes,
// no overlaps, no bytes after the last tensor, no duplicate names.
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

// Maps the file's tensor names to skald's. An empty result means that the tensor is not needed; its
// type is then not checked.
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
