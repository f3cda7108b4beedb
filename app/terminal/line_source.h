// Gives the lines of a dialogue: from a pipe, or from a person at a terminal.
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

  // `line` has no newline at its end, but pasted text may hold newlines. It is valid UTF-8.
  virtual Got read(const std::string& prompt, std::string& line) = 0;

  // True if the last line had bytes that are not UTF-8. U+FFFD stands in their place.
  bool repaired() const { return repaired_; }

 protected:
  bool repaired_ = false;
};

// Reads lines of stdin as they are: for pipes and dumb terminals. The prompt is written if
// `terminal` is given.
std::unique_ptr<LineSource> make_plain_lines(TerminalMode* terminal);

// Lines that a person edits, with history, by libedit and the keys of the user's ~/.editrc. Pasted
// text is one line. The three arguments must outlive the result.
std::unique_ptr<LineSource> make_line_editor(TerminalMode& terminal, const TerminalTraits& traits,
                                             const LineHistory& history);

// Reads several lines as one message: while a line ends in a backslash, the next line is read too.
// The end of the input also ends the message.
LineSource::Got read_message(LineSource& source, const std::string& prompt,
                             const std::string& further_prompt, std::string& message,
                             bool& repaired);

}  // namespace skald
