// The terminal that a person sits at: what it can show, and its mode while a program talks with
// them. What belongs to one process (the mode, the locale) is kept in one place here.
#pragma once

#include <string>
#include <string_view>

namespace skald {

// By the environment: TERM, NO_COLOR and the locale.
struct TerminalTraits {
  bool dumb = false;   // no escape sequences at all
  bool colour = true;  // dim text is wanted
  bool utf8 = true;
};

// Makes the locale's character set the process's own. Where the environment names none, it is
// UTF-8.
TerminalTraits find_terminal_traits();

// UTF-8 text as the terminal's character set has it; what that lacks is written \u00e9.
std::string for_terminal(const TerminalTraits& traits, std::string_view utf8);

int terminal_columns();  // of stdout's window; 80 where nobody knows

// Keeps the mode that stdin's terminal had and gives it back when it goes, also where a signal ends
// the program. One at a time.
class TerminalMode {
 public:
  TerminalMode();
  ~TerminalMode();
  TerminalMode(const TerminalMode&) = delete;
  TerminalMode& operator=(const TerminalMode&) = delete;

  // Keys are kept for the next line, Ctrl-D too, and not shown: while an answer is written. Line
  // editing sets a mode of its own from here.
  void hide_keys();
  void show_keys();

  // Lets go of the terminal and stops, as Ctrl-Z asks; comes back in the mode that was.
  void suspend();
};

}  // namespace skald
