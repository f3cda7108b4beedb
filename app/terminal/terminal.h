// A person's terminal: what it can show, and its mode while a command talks with the person. The
// terminal's mode and the locale belong to the whole process; only this file changes them.
#pragma once

#include <string>
#include <string_view>

namespace skald {

// From the environment: TERM, NO_COLOR and the locale.
struct TerminalTraits {
  bool dumb = false;   // no escape sequences at all
  bool colour = true;  // dim text is wanted
  bool utf8 = true;
};

// Sets the process's locale to that of the environment; UTF-8 where the environment names none.
TerminalTraits find_terminal_traits();

// UTF-8 text in the terminal's character set; characters that the set lacks become \u00e9 and so
// on.
std::string for_terminal(const TerminalTraits& traits, std::string_view utf8);

// Width of the window that stdout or stderr writes to; 80 if it is not known.
int terminal_columns();
int stderr_columns();

// Changes the mode of stdin's terminal. The destructor restores the old mode; so does a signal that
// ends the program. There is at most one TerminalMode at a time.
class TerminalMode {
 public:
  TerminalMode();
  ~TerminalMode();
  TerminalMode(const TerminalMode&) = delete;
  TerminalMode& operator=(const TerminalMode&) = delete;

  // While an answer is written, keys, also Ctrl-D, are kept for the next line and not shown. Line
  // editing sets a mode of its own and returns to this one.
  void hide_keys();
  void show_keys();

  // For Ctrl-Z: restores the terminal, stops the program, and sets the same mode again afterwards.
  void suspend();
};

}  // namespace skald
