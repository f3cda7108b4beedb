#include "app/files/input.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <utility>

#include "app/files/open.h"
#include "app/files/signals.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "tokenizer/text/utf8.h"

namespace skald {
namespace {

// More than any context holds. An endless pipe must not fill the memory.
constexpr size_t kMostBytes = size_t{256} << 20;

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Some programs start others with a stdin that nobody writes to or closes. After a moment, a
// message says that skald waits for stdin.
class WaitingHint {
 public:
  WaitingHint(int fd, std::string name) : fd_(isatty(fd) == 1 ? -1 : fd), name_(std::move(name)) {}

  void look() {
    if (fd_ < 0 || std::chrono::steady_clock::now() - start_ < kPatience) return;
    std::fprintf(stderr, "skald: waiting for the end of %s%s\n", name_.c_str(),
                 fd_ == STDIN_FILENO ? "; where nothing will come, add < /dev/null" : "");
    fd_ = -1;
  }

 private:
  static constexpr std::chrono::seconds kPatience{2};
  int fd_;  // -1: the message was printed, or stdin is a terminal
  std::string name_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

std::string read_all(int fd, const std::string& name) {
  std::string text;
  WaitingHint hint(fd, name);
  char part[1 << 16];
  while (true) {
    if (interrupted_by()) fail_interrupted("while reading " + name);
    // read() alone would miss a signal that came just before it.
    pollfd ready = {fd, POLLIN, 0};
    if (poll(&ready, 1, kPollMilliseconds) <= 0) {
      hint.look();
      continue;
    }
    const ssize_t count = read(fd, part, sizeof part);
    if (count == 0) return text;
    if (count > 0) {
      text.append(part, static_cast<size_t>(count));
      if (text.size() > kMostBytes) {
        fail(Exit::Failed, name, ": is longer than ", kMostBytes >> 20,
             " MiB, too much for a prompt");
      }
    } else if (errno != EINTR) {
      fail(Exit::Failed, name, ": cannot be read: ", std::strerror(errno));
    }
  }
}

}  // namespace

std::string read_bytes(const std::string& file) {
  if (file == "-") return read_all(STDIN_FILENO, "stdin");
  const std::string name = printable(file);
  const int fd = open_waiting(file, O_RDONLY);
  if (fd < 0) fail(Exit::Usage, name, ": cannot be opened: ", std::strerror(errno));
  struct stat status = {};
  fstat(fd, &status);
  if (S_ISDIR(status.st_mode)) {
    close(fd);
    fail(Exit::Usage, name, ": is a folder, expected a text file");
  }
  std::string text = read_all(fd, name);
  close(fd);
  return text;
}

std::string read_text(const std::string& file) {
  std::string text = read_bytes(file);
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

std::string unescape(std::string_view text) {
  constexpr std::string_view kNames = "nrt\\\"'0";
  constexpr std::string_view kMeanings("\n\r\t\\\"'\0", 7);
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      out += text[i];
      continue;
    }
    const char kind = i + 1 < text.size() ? text[i + 1] : ' ';
    const size_t known = kNames.find(kind);
    if (known != std::string_view::npos) {
      out += kMeanings[known];
      ++i;
    } else if (kind == 'x' && i + 3 < text.size() && hex_digit(text[i + 2]) >= 0 &&
               hex_digit(text[i + 3]) >= 0) {
      out += static_cast<char>(16 * hex_digit(text[i + 2]) + hex_digit(text[i + 3]));
      i += 3;
    } else {
      fail(Exit::Usage, "prompt: unknown escape '", printable(text.substr(i, 4)),
           "'; write \\\\ for a backslash, or leave -e out");
    }
  }
  return out;
}

std::string printable_text(std::string_view text) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  while (!text.empty()) {
    const auto byte = static_cast<unsigned char>(text[0]);
    const size_t length = utf8_length(text);
    // C1 controls are two bytes in UTF-8, 0xC2 0x80 to 0xC2 0x9F; alone, their second byte is one
    // in older encodings.
    const bool c1 = length == 2 && byte == 0xc2 && static_cast<unsigned char>(text[1]) < 0xa0;
    const bool control = (byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7f || c1;
    if (control || length == 0) {
      const auto code = c1 ? static_cast<unsigned char>(text[1]) : byte;
      out += {'\\', 'x', kHex[code >> 4], kHex[code & 15]};
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  return out;
}

}  // namespace skald
