// Opens GGUF files, versions 2 and 3, as a single file or as the parts of a split model. Opening
// reads and checks only the head (a few milliseconds); tensors are views into the mapped file.
// Every count, size and offset is checked against the file's size before use, so a damaged or
// hostile file gives an Error.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "engine/program/weights.h"
#include "models/files/gguf_metadata.h"
#include "models/files/mapped_file.h"

namespace skald {

class GgufFile : public WeightFile {
 public:
  explicit GgufFile(const std::filesystem::path& path);

  const GgufMetadata& metadata() const { return metadata_; }  // the first part's
  uint32_t version() const { return version_; }
  void check_whole() const override;

 private:
  std::vector<std::unique_ptr<MappedFile>> files_;
  GgufMetadata metadata_;
  uint32_t version_ = 0;
};

// Opens the whole model from any part of a split model. A file without tensors (only a vocabulary)
// is accepted.
std::shared_ptr<const GgufFile> open_gguf(const std::filesystem::path& path);

}  // namespace skald
