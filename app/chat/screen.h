// What skald chat shows. On a terminal: answers with control characters made visible and the
// thinking dimmed, and what there is to say beside them. In a pipe stdout is the answers alone, as
// they are, and everything else goes to stderr.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "app/chat/thinking.h"
#include "app/terminal/output.h"
#include "app/terminal/terminal.h"

namespace skald {

struct ScreenOptions {
  bool interactive = false;  // a person types on a terminal and reads there
  bool raw = false;          // control characters reach the terminal
  bool hide_thinking = false;
  TerminalTraits traits;
};

class ChatScreen {
 public:
  explicit ChatScreen(ScreenOptions options);

  bool interactive() const { return options_.interactive; }

  // One answer, as it comes; `prompt` is what the model goes on from. end_answer() ends its line.
  void begin_answer(std::string_view prompt);
  void answer(std::string_view piece);
  void end_answer();

  void say(std::string_view text);         // the reply to a command, lines of its own
  void say_dimmed(std::string_view text);  // what is nice to know
  void notice(std::string_view text);      // "skald: …": what should be known

  const std::string& thinking() const { return thinking_; }  // of the last answer

 private:
  void show(const ThinkingPart& part);
  void write(std::string_view text);
  void set_dim(bool dim);
  void end_thinking();
  void end_line();
  void put_line(std::string_view text, bool dim);
  std::string visible(std::string_view text) const;

  ScreenOptions options_;
  StandardOutput out_;
  bool terminal_;  // stdout is one
  std::optional<ThinkingSplitter> splitter_;
  std::string thinking_;
  bool hiding_ = false;   // the mark of hidden thinking stands open
  bool shown_ = false;    // something of the answer, beside white space
  bool at_begin_ = true;  // white space is left out
  bool dim_ = false;
  bool line_open_ = false;  // the last character was no new line
};

}  // namespace skald
