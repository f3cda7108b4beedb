// Lines from a pipe, or from a terminal whose mode is not changed.
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "app/files/signals.h"
#include "app/terminal/line_source.h"
#include "app/terminal/output.h"
#include "engine/base/error.h"
#include "tokenizer/text/utf8.h"

namespace skald {
namespace {

// More than any context holds. A line without end must not fill the memory.
constexpr size_t kMostInputBytes = size_t{256} << 20;

class PlainLines final : public LineSource {
 public:
  explicit PlainLines(TerminalMode* terminal) : terminal_(terminal) {}

  Got read(const std::string& prompt, std::string& line) override {
    if (!terminal_) return read_line(prompt, line);
    terminal_->show_keys();  // before the prompt, which says that Ctrl-D counts
    StandardOutput().write(prompt);
    const Got got = read_line(prompt, line);
    terminal_->hide_keys();
    return got;
  }

 private:
  Got read_line(const std::string& prompt, std::string& line) {
    size_t seen = 0, end;
    while ((end = bytes_.find('\n', seen)) == std::string::npos) {
      seen = bytes_.size();
      const Got got = read_more(prompt);
      if (got == Got::Interrupted) return got;
      if (got == Got::Line) continue;
      if (bytes_.empty()) return Got::End;
      end = bytes_.size();
      break;
    }
    line = bytes_.substr(0, end);
    bytes_.erase(0, end + 1);
    if (line.ends_with('\r')) line.pop_back();
    repaired_ = !utf8_valid(line);
    if (repaired_) line = utf8_repaired(line);
    return Got::Line;
  }

  Got read_more(const std::string& prompt) {
    if (!wait_readable(STDIN_FILENO)) {
      if (interrupted_by()) return Got::Interrupted;
      if (terminal_ && take_suspended()) {
        terminal_->suspend();
        StandardOutput().write(prompt);
      }
      return Got::Line;
    }
    char part[1 << 16];
    const ssize_t count = ::read(STDIN_FILENO, part, sizeof part);
    if (count < 0 && errno != EINTR && errno != EAGAIN) {
      fail(Exit::Failed, "stdin: cannot be read: ", std::strerror(errno));
    }
    if (count > 0) bytes_.append(part, static_cast<size_t>(count));
    if (bytes_.size() > kMostInputBytes) {
      fail(Exit::Failed, "stdin: a line is longer than ", kMostInputBytes >> 20, " MiB");
    }
    return count == 0 ? Got::End : Got::Line;
  }

  TerminalMode* terminal_;
  std::string bytes_;  // bytes that are not yet a line
};

}  // namespace

std::unique_ptr<LineSource> make_plain_lines(TerminalMode* terminal) {
  return std::make_unique<PlainLines>(terminal);
}

LineSource::Got read_message(LineSource& source, const std::string& prompt,
                             const std::string& further_prompt, std::string& message,
                             bool& repaired) {
  message.clear();
  repaired = false;
  while (true) {
    std::string line;
    const bool first = message.empty();
    const LineSource::Got got = source.read(first ? prompt : further_prompt, line);
    if (got == LineSource::Got::Interrupted) return got;
    if (got == LineSource::Got::End) {
      return first ? got : LineSource::Got::Line;  // Ctrl-D after a backslash ends the message
    }
    repaired |= source.repaired();
    const bool more = line.ends_with('\\');
    if (more) line.back() = '\n';
    message += line;
    if (!more) return got;
  }
}

}  // namespace skald
