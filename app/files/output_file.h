// A file, pipe or stdout that grows while a command runs. Bytes that append() or flush() has
// written survive a kill of the program. A line of append() is in the file whole or not at all. A
// file that must never be seen half written is an AtomicFile. Not thread-safe.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "app/files/claim.h"

namespace skald {

// What happens to a file that is there already. Only regular files are refused or continued.
//   Refuse    Error(Exit::Usage): the user may want to keep it
//   Continue  new lines go behind the old ones (--resume, --checkpoint)
//   Replace   the old content is gone
enum class Existing { Refuse, Continue, Replace };

// Throws Error(Exit::Usage) if the file exists and must not (Existing::Refuse), as OutputFile's
// constructor does. Call it before the long work whose results the file is to keep.
void check_output(const std::string& path, Existing existing);

class OutputFile {
 public:
  // "-" is stdout, but not with Replace. Throws Error(Exit::Failed) where the file cannot be
  // opened, or another process is writing to it. `claim`: the caller has claimed the file already.
  OutputFile(const std::string& path, Existing existing,
             std::shared_ptr<FileClaim> claim = nullptr);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  // Writes a line at once, and returns where in the file it begins. `line` has no newline in it.
  // After an Error the file ends with the line before.
  int64_t append(std::string_view line);

  // Buffered bytes, for large results. finish() writes the rest and closes; what the buffer holds
  // without finish() is lost. Other processes may write to the file from then on.
  void write(std::string_view bytes);
  void flush();
  void finish();

  // Brings what was written to the disk.
  void sync();

  // bytes(), read() and truncate() are for regular files alone.
  bool is_file() const { return file_; }
  int64_t bytes() const { return bytes_; }
  std::string read(int64_t offset, int64_t most) const;  // fewer bytes at the end
  void truncate(int64_t bytes);

  // Keeps only the lines that begin at these offsets, in this order. A reader of the file sees all
  // of the old lines or all of the new ones.
  void rearrange(std::span<const int64_t> line_starts);

  const std::string& path() const { return path_; }
  const std::string& name() const { return name_; }  // printable
  struct stat status() const;

 private:
  void open_file();
  [[noreturn]] void fail_write(int error, const char* advice = "") const;

  std::string path_, name_;
  Existing existing_;
  std::shared_ptr<FileClaim> claim_;
  int fd_ = -1;
  bool owned_ = false, file_ = false;
  bool named_ = true;  // the folder's entry of the file is on the disk
  int64_t bytes_ = 0;
  std::string line_;     // the line that append() is writing
  std::string pending_;  // what write() has buffered
};

}  // namespace skald
