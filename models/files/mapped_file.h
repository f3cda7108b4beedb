// A regular file, mapped read-only for the lifetime of the MappedFile. Pages are read when they are
// first touched, so a 16 GB file opens at once.
//
// If another program truncates the file while it is mapped, touching a lost page ends this process
// with SIGBUS. No check can exclude that, except reading the whole file into memory first.
// check_whole() catches the usual case, a download or copy that is still running: call it before a
// long phase that reads the weights. It throws an Error if the size or the modification time has
// changed since opening.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace skald {

class MappedFile {
 public:
  // Throws Error(Exit::Model) for anything but a regular file (a folder, pipe or device), and for
  // an empty file.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }
  const std::string& path() const { return path_; }  // printable

  void check_whole() const;

 private:
  std::string path_;
  int fd_ = -1;
  std::span<const std::byte> bytes_;
  int64_t changed_ns_ = 0;  // modification time at opening
};

// Frees the memory of a mapping's pages, for data that is read once from end to end. A later access
// reads the pages again. Only whole pages inside the range are dropped.
void drop_pages(std::span<const std::byte> mapped);

}  // namespace skald
