// A file in memory only, for readers that need a path. It is deleted with the object.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

namespace skald {

class MemoryFile {
 public:
  // A file of `bytes` bytes: `head`, followed by zeros.
  MemoryFile(std::string_view head, int64_t bytes);
  ~MemoryFile();
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  void write(int64_t offset, std::span<const std::byte> bytes) const;
  std::filesystem::path path() const;

 private:
  int fd_;
};

}  // namespace skald
