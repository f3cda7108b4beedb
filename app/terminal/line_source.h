// Where a dialogue's lines come from: a pipe, or a person at a terminal.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "app/terminal/line_history.h"
#include "app/terminal/terminal.h"

namespace skald {

class LineSource {
 public:
  enum class Got { Line, Interrupted, End };  // Interrupted: see interrupted_by()

  virtual ~LineSource() = default;

  // `line` comes without its newline; pasted text may hold others. Always valid UTF-8.
  virtual Got read(const std::string& prompt, std::string& line) = 0;

  // Whether the last line held bytes that were no text; U+FFFD stands for them.
  bool repaired() const { return repaired_; }

 protected:
  bool repaired_ = false;
};

// Plain bytes of stdin: pipes, and terminals that can do nothing else. The prompt is written where
// the terminal's mode is given.
std::unique_ptr<LineSource> make_plain_lines(TerminalMode* terminal);

// Editing and history, by libedit, with the keys of the user's ~/.editrc. Pasted text comes as one
// line. All three outlive it.
std::unique_ptr<LineSource> make_line_editor(TerminalMode& terminal, const TerminalTraits& traits,
                                             const LineHistory& history);

// Several lines as one: while a line ends in a backslash, the next one is read too. `line` is the
// whole message; its last line may be cut short by the end of the input.
LineSource::Got read_message(LineSource& source, const std::string& prompt,
                             const std::string& further_prompt, std::string& message,
                             bool& repaired);

}  // namespace skald
