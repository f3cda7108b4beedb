// A text of any size, read in parts: a file, or stdin ("-"), which is kept in memory. Refuses what
// is no text: a folder, an empty file, bytes that are no UTF-8, NUL bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace skald {

class TextFile {
 public:
  explicit TextFile(const std::string& path);  // throws Error(Exit::Usage)
  ~TextFile();
  TextFile(const TextFile&) = delete;
  TextFile& operator=(const TextFile&) = delete;

  const std::string& name() const { return name_; }  // fit to print
  int64_t size() const { return size_; }
  // Throws where the file has become shorter.
  std::string read(int64_t offset, int64_t bytes) const;

  // `part` lies at `offset` and ends with a whole character.
  void check_text(std::string_view part, int64_t offset) const;

 private:
  std::string name_, memory_;
  int fd_ = -1;  // -1: all of it is in memory_
  int64_t size_ = 0;
};

}  // namespace skald
