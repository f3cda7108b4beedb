// Opens safetensors: a folder with model.safetensors, a folder with model.safetensors.index.json
// and its shards, or one .safetensors file. Tensors are views into the mapped files, which live as
// long as the SafetensorsFile. Opening reads only the headers and checks them strictly: no holes,
// no overlaps, no bytes after the last tensor, no duplicate names.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/program/weights.h"
#include "models/files/mapped_file.h"

namespace skald {

// Maps the file's tensor names to skald's. An empty result means that the tensor is not needed; its
// type is then not checked.
using TensorRename = std::function<std::string(std::string_view)>;

// A tensor of a type that no matrix has, such as the bytes of packed weights.
struct RawTensor {
  std::string name;
  std::string type;            // as in the file: "U8"
  std::vector<int64_t> shape;  // outermost first
  std::span<const std::byte> bytes;
  std::string file;  // for messages
};

// What is done about tensors that are needed and have a type that no matrix has.
enum class RawTensors : uint8_t { Refused, Kept };

class SafetensorsFile : public WeightFile {
 public:
  SafetensorsFile(const std::filesystem::path& folder_or_file, const TensorRename& rename,
                  RawTensors raw = RawTensors::Refused);
  void check_whole() const override;
  const std::vector<RawTensor>& raw_tensors() const { return raw_; }

 private:
  std::vector<std::unique_ptr<MappedFile>> files_;
  std::vector<RawTensor> raw_;
};

// Throws an Error: skald reads no weights of this type from safetensors.
[[noreturn]] void refuse_raw(const RawTensor& tensor);

std::shared_ptr<const SafetensorsFile> open_safetensors(const std::filesystem::path& folder_or_file,
                                                        const TensorRename& rename,
                                                        RawTensors raw = RawTensors::Refused);

}  // namespace skald
