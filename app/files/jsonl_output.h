// The file, pipe or stdout that results go to. A line is written whole or not at all, and is out of
// the program's hands when append() returns. An existing file is never overwritten: it is refused,
// or gone on with. Nobody else can append meanwhile: the file is locked. Not thread-safe.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace skald {

enum class Existing { Refuse, GoOn };

// Before the work whose results it shall get. Throws Error(Exit::Usage) as JsonlOutput does for a
// file that is there.
void check_output(const std::string& path, Existing existing);

class JsonlOutput {
 public:
  // "-" is stdout. Throws Error(Exit::Usage) where the file is there but may not be.
  JsonlOutput(const std::string& path, Existing existing);
  ~JsonlOutput();
  JsonlOutput(const JsonlOutput&) = delete;
  JsonlOutput& operator=(const JsonlOutput&) = delete;

  // `line` has no newline in it. Returns where in the file it begins. On an Error the file ends
  // with the line before.
  int64_t append(std::string_view line);

  // Of regular files alone, which can be gone on with.
  bool is_file() const { return file_; }
  int64_t bytes() const { return bytes_; }
  std::string read(int64_t offset, int64_t most) const;  // less at the end
  void truncate(int64_t bytes);
  void sync();

  // Replaces the file by those of its lines that begin at these places, in this order, in one move:
  // whoever reads it sees either all of the old or all of the new.
  void rearrange(std::span<const int64_t> line_starts);

  const std::string& path() const { return path_; }
  const std::string& name() const { return name_; }  // printable
  struct stat status() const;

 private:
  void open_file(Existing existing);
  void lock();

  std::string path_, name_;
  int fd_ = -1;
  bool owned_ = false, file_ = false;
  int64_t bytes_ = 0;
  std::string line_;  // that is being written
};

}  // namespace skald
