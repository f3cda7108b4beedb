// A text of any size, read in parts: a file, or stdin ("-"), which is kept in memory. Refuses
// folders, empty files, bytes that are no UTF-8, and NUL bytes.
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

  const std::string& name() const { return name_; }  // printable
  int64_t size() const { return size_; }
  // Throws Error where the file has become shorter.
  std::string read(int64_t offset, int64_t bytes) const;

  // Throws Error(Exit::Usage) unless `part`, which lies at `offset`, is UTF-8 without NUL. `part`
  // must end with a whole character.
  void check_text(std::string_view part, int64_t offset) const;

 private:
  std::string name_, memory_;
  int fd_ = -1;  // -1: all of it is in memory_
  int64_t size_ = 0;
};

}  // namespace skald
