// A model's text on stdout: to a pipe byte for byte; to a terminal in its character set, without
// control characters that could take the terminal over.
#pragma once

#include <string_view>

#include "app/terminal/output.h"
#include "app/terminal/terminal.h"

namespace skald {

class TextOutput {
 public:
  explicit TextOutput(bool raw);  // raw: even control characters reach a terminal

  bool is_terminal() const { return terminal_; }
  void write(std::string_view text);         // whole characters
  void write_dimmed(std::string_view text);  // dimmed, where a terminal has colours

 private:
  StandardOutput out_;
  TerminalTraits traits_;
  bool terminal_, raw_;
};

}  // namespace skald
