// The output of skald chat. On a terminal: answers, with visible control characters and dimmed
// thinking, and messages of the program. In a pipe, stdout has the answers alone, byte for byte,
// and everything else goes to stderr. Thinking between tags belongs to an answer there; thinking
// and preambles in channels do not.
#pragma once

#include <string>
#include <string_view>

#include "app/generate/answer_text.h"
#include "app/terminal/output.h"
#include "app/terminal/terminal.h"
#include "app/terminal/word_wrap.h"

namespace skald {

struct ScreenOptions {
  bool interactive = false;  // a person types on a terminal and reads there
  bool raw = false;          // control characters reach the terminal unchanged
  bool hide_thinking = false;
  bool wrap = true;  // lines break between words; not on a dumb terminal, nor with `raw`
  TerminalTraits traits;
};

class ChatScreen {
 public:
  explicit ChatScreen(ScreenOptions options);

  bool interactive() const { return options_.interactive; }

  // One answer in parts. end_answer() ends the line.
  void begin_answer();
  void answer(const AnswerPart& part);
  void end_answer();

  void say(std::string_view text);         // the reply to a command, on lines of its own
  void say_dimmed(std::string_view text);  // less important
  void notice(std::string_view text);      // "skald: …": important

  const std::string& thinking() const { return thinking_; }  // in the last answer

 private:
  void begin_message(const AnswerPart& part);
  bool is_shown(const AnswerPart& part) const;
  void write(std::string_view text);
  void set_dim(bool dim);
  void end_thinking();
  void end_line();
  void put_line(std::string_view text, bool dim);
  std::string visible(std::string_view text) const;
  bool wraps() const;

  ScreenOptions options_;
  StandardOutput out_;
  bool terminal_;  // stdout is a terminal
  WordWrap wrap_;
  std::string thinking_;
  std::string preamble_;  // in a pipe: shown if nothing else comes
  bool hiding_ = false;   // the mark of hidden thinking is shown, and has no end yet
  bool shown_ = false;    // more of the answer than white space was shown
  bool at_begin_ = true;  // white space is dropped here
  bool dim_ = false;
  bool line_open_ = false;  // the last character was no new line
};

}  // namespace skald
