// A file that is there whole or not at all: written beside its place under another name, and moved
// there by commit(). Without commit(), or after an Error, what was there before is untouched. Only
// the user may read it.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

namespace skald {

class AtomicFile {
 public:
  explicit AtomicFile(const std::filesystem::path& path);  // a link's target is replaced, not it
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void commit();

 private:
  [[noreturn]] void fail_to(const char* what) const;

  std::filesystem::path path_;
  std::string temporary_;
  int fd_ = -1;
};

// Throws Error(Exit::Failed) where an AtomicFile could not be made: before the work whose result it
// shall keep.
void check_writable(const std::filesystem::path& path);

}  // namespace skald
