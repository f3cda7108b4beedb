#include "app/files/jsonl_reader.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "app/files/open.h"
#include "app/files/signals.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"

namespace skald {
namespace {

constexpr size_t kBufferBytes = 256 << 10;

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t\r\v\f") == std::string_view::npos;
}

bool parse_line_number(std::string_view text, int64_t& number) {
  if (text.empty()) return true;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && number >= 1;
}

}  // namespace

LineRange parse_line_range(const std::string& text, const std::string& flag) {
  LineRange range;
  const size_t colon = text.find(':');
  const bool good = colon != std::string::npos && text.size() > 1 &&
                    parse_line_number(std::string_view(text).substr(0, colon), range.first) &&
                    parse_line_number(std::string_view(text).substr(colon + 1), range.last) &&
                    range.first <= range.last;
  if (!good) {
    fail(Exit::Usage, flag, " '", printable(text, 60),
         "': expected the first and the last line, counted from 1, as in 1:500 or 501:");
  }
  return range;
}

JsonlReader::JsonlReader(const std::string& file, LineRange range, JsonlLimits limits)
    : name_(file == "-" ? "stdin" : printable(file)),
      range_(range),
      limits_(limits),
      buffer_(kBufferBytes) {
  if (file == "-") {
    fd_ = STDIN_FILENO;
    return;
  }
  fd_ = open_waiting(file, O_RDONLY);
  if (fd_ < 0) fail(Exit::Usage, name_, ": cannot be opened: ", std::strerror(errno));
  owned_ = true;
  struct stat status = {};
  fstat(fd_, &status);
  if (S_ISDIR(status.st_mode)) {
    close(fd_);
    fail(Exit::Usage, name_, ": is a folder, expected a file of lines");
  }
}

JsonlReader::JsonlReader(std::string name, std::string_view text, LineRange range,
                         JsonlLimits limits)
    : name_(std::move(name)),
      range_(range),
      limits_(limits),
      buffer_(text.begin(), text.end()),
      end_(text.size()),
      bytes_read_(std::ssize(text)) {}

JsonlReader::~JsonlReader() {
  if (owned_) close(fd_);
}

int64_t JsonlReader::size() const {
  struct stat status = {};
  return fstat(fd_, &status) == 0 && S_ISREG(status.st_mode) ? status.st_size : -1;
}

bool JsonlReader::is_file(uint64_t device, uint64_t inode) const {
  struct stat status = {};
  return fstat(fd_, &status) == 0 && status.st_dev == device && status.st_ino == inode;
}

bool JsonlReader::ends_early() const { return stopped_ || interrupted_by() != 0; }

bool JsonlReader::fill() {
  if (fd_ < 0) return false;
  while (!ends_early()) {
    // read() alone would not wake for a signal that came to another thread, or just before it.
    pollfd ready{fd_, POLLIN, 0};
    if (poll(&ready, 1, kPollMilliseconds) <= 0) continue;
    const ssize_t count = read(fd_, buffer_.data(), buffer_.size());
    if (count >= 0) {
      begin_ = 0;
      end_ = static_cast<size_t>(count);
      bytes_read_ += count;
      return count > 0;
    }
    if (errno != EINTR && errno != EAGAIN) {
      fail(Exit::Failed, name_, ": cannot be read: ", std::strerror(errno));
    }
  }
  return false;
}

bool JsonlReader::read_line(JsonlLine& line) {
  line.number = ++number_;
  line.offset = bytes_read_ - static_cast<int64_t>(end_ - begin_);
  line.text.clear();
  line.bytes = 0;
  line.too_long = false;
  bool found = false, ended = false;
  while (!ended) {
    if (begin_ == end_ && !fill()) {
      if (ends_early()) return false;  // half a line does not count
      break;
    }
    found = true;
    const char* from = buffer_.data() + begin_;
    const void* newline = std::memchr(from, '\n', end_ - begin_);
    ended = newline != nullptr;
    const size_t count = ended ? static_cast<const char*>(newline) - from : end_ - begin_;
    line.bytes += static_cast<int64_t>(count);
    if (!line.too_long) line.text.append(from, count);
    if (line.text.size() > limits_.line) {
      line.too_long = true;
      line.text.resize(limits_.kept);
      line.text.shrink_to_fit();
    }
    begin_ += count + ended;
  }
  if (number_ == 1 && line.text.starts_with("\xef\xbb\xbf")) line.text.erase(0, 3);
  if (!line.too_long && line.text.ends_with('\r')) line.text.pop_back();
  return found;
}

bool JsonlReader::next(JsonlLine& line) {
  while (number_ < range_.last && !ends_early()) {
    if (!read_line(line)) return false;
    if (number_ >= range_.first && (line.too_long || !is_blank(line.text))) return true;
  }
  return false;
}

}  // namespace skald
