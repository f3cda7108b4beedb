// Bytes as a file that was never on a disk, for readers that take a path. Gone with the object.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>

namespace skald {

class MemoryFile {
 public:
  // `zeros`: bytes of 0 behind the data, which take no memory.
  MemoryFile(const uint8_t* data, size_t size, size_t zeros = 0)
      : descriptor_(memfd_create("fuzz", 0)) {
    for (size_t at = 0; at < size;) {
      const ssize_t written = write(descriptor_, data + at, size - at);
      if (written <= 0) break;
      at += static_cast<size_t>(written);
    }
    if (zeros > 0 && ftruncate(descriptor_, static_cast<off_t>(size + zeros)) != 0) abort();
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile() { close(descriptor_); }

  std::filesystem::path path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

}  // namespace skald
