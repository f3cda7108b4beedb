// A file that is on no disk, for readers that take a path. Gone with the object.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

namespace skald {

class MemoryFile {
 public:
  // Of so many bytes, which begin with `head` and are 0 after it.
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
