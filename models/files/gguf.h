// Opens GGUF files, versions 2 and 3, whole or split into parts. Opening reads and checks only the
// head (a few milliseconds); tensors are views into the mapping. Every count, size and offset is
// compared with the bytes that are there before it is used, so a damaged or hostile file is an
// Error.
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

  const GgufMetadata& metadata() const { return metadata_; }  // of the first part
  uint32_t version() const { return version_; }
  void check_whole() const override;

 private:
  std::vector<std::unique_ptr<MappedFile>> files_;
  GgufMetadata metadata_;
  uint32_t version_ = 0;
};

// Any part of a split model opens all of it. A file without tensors (only a vocabulary) is fine.
std::shared_ptr<const GgufFile> open_gguf(const std::filesystem::path& path);

}  // namespace skald
