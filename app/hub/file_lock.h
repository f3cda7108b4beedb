// A lock that other processes see, also Hugging Face's own tools: flock() on a file, which stays
// there afterwards. The system gives it back when the process ends, however it ends.
#pragma once

#include <filesystem>
#include <optional>

namespace skald {

class FileLock {
 public:
  // Empty if another process holds the lock. Throws Error(Exit::Failed) if the file cannot be made.
  static std::optional<FileLock> try_take(const std::filesystem::path& file);

  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&& other) noexcept;
  ~FileLock();

 private:
  explicit FileLock(int fd) : fd_(fd) {}
  int fd_;
};

}  // namespace skald
