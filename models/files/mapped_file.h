// A regular file, mapped read-only for as long as the MappedFile lives. Nothing is read before it
// is touched, so a 16 GB file opens at once.
//
// A file that another program truncates while it is mapped ends this process with SIGBUS on the
// next touch of the lost pages; no check can exclude that (reading 16 GB into memory first would).
// What can be caught is the usual case, a download or copy still going on: call check_whole()
// before a long phase that reads the weights, and it throws a clear error when size or time of
// change differ from those at opening.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace skald {

class MappedFile {
 public:
  // Refuses what is no regular file (folder, pipe, device) and what is empty.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }
  const std::string& path() const { return path_; }  // fit to print

  void check_whole() const;

 private:
  std::string path_;
  int fd_ = -1;
  std::span<const std::byte> bytes_;
  int64_t changed_ns_ = 0;  // time of the last change of contents, at opening
};

// Gives back the memory that pages of a mapping take, for what is read once from end to end: when
// they are touched again they are read again. Of whole pages inside the range alone.
void drop_pages(std::span<const std::byte> mapped);

}  // namespace skald
