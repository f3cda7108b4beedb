// A file that appears under its name only when it is complete: written beside it under a name that
// ends in ".part", brought to the disk, then renamed. Whatever goes wrong before, the name stays as
// it was. Throws Error(Exit::Failed) with the system's reason.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

namespace skald {

class NewFile {
 public:
  // Reserves the space for all bytes, so that a full disk is an error now and not after an hour.
  NewFile(const std::filesystem::path& path, int64_t bytes, bool replace);
  ~NewFile();  // removes what is not finished
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  void write(int64_t offset, std::span<const std::byte> bytes);
  void finish();

 private:
  [[noreturn]] void fail_with(int error, const char* what) const;

  std::filesystem::path path_, part_;
  bool replace_, finished_ = false;
  int fd_ = -1;
};

}  // namespace skald
