// Lines of a file, a pipe or stdin, one at a time. Memory is bounded whatever the input holds: only
// the beginning of a line that is too long is kept. Accepts the line ends of Unix and Windows,
// drops a byte order mark, and passes over blank lines, which count in line numbers. The input may
// grow while it is read. Not thread-safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace skald {

struct JsonlLine {
  int64_t number = 0;     // from 1, as editors count
  std::string text;       // without its line end
  int64_t offset = 0;     // the place of its first byte in the input
  int64_t bytes = 0;      // length of the whole line without its newline
  bool too_long = false;  // text is only the beginning of the line
};

// Both ends are included.
struct LineRange {
  int64_t first = 1, last = INT64_MAX;
};

// Parses "10:20", "10:" or ":20".
LineRange parse_line_range(const std::string& text, const std::string& flag);

struct JsonlLimits {
  size_t line = size_t{16} << 20;  // bytes; a longer line is too long
  size_t kept = 1024;              // bytes that are kept of such a line
};

class JsonlReader {
 public:
  // "-" is stdin. Throws Error(Exit::Usage) where the file cannot be opened.
  explicit JsonlReader(const std::string& file, LineRange range = {}, JsonlLimits limits = {});
  // Lines in memory.
  JsonlReader(std::string name, std::string_view text, LineRange range = {},
              JsonlLimits limits = {});
  ~JsonlReader();
  JsonlReader(const JsonlReader&) = delete;
  JsonlReader& operator=(const JsonlReader&) = delete;

  // False at the end of the range or of the input, after stop(), and when the program is
  // interrupted.
  bool next(JsonlLine& line);

  void stop() { stopped_ = true; }  // from any thread

  const std::string& name() const { return name_; }  // printable
  int64_t bytes_read() const { return bytes_read_; }
  int64_t size() const;  // bytes that the file has now; -1: not a regular file
  bool is_file(uint64_t device, uint64_t inode) const;

 private:
  bool fill();                      // reads more bytes; false at the end
  bool read_line(JsonlLine& line);  // also reads blank lines

  bool ends_early() const;

  std::string name_;
  LineRange range_;
  JsonlLimits limits_;
  std::atomic<bool> stopped_ = false;
  int fd_ = -1;  // -1: all is in the buffer
  bool owned_ = false;
  std::vector<char> buffer_;
  size_t begin_ = 0, end_ = 0;  // the range of unread bytes in the buffer
  int64_t bytes_read_ = 0, number_ = 0;
};

}  // namespace skald
