// What goes to stdout: bytes as they are, at once. When the reader has gone away, write() throws
// Error(Exit::Closed), which ends the program quietly; any other failure is an Error that says why.
#pragma once

#include <string_view>

namespace skald {

class StandardOutput {
 public:
  void write(std::string_view bytes);
  bool is_terminal() const;
};

bool stdin_is_terminal();
bool stderr_is_terminal();

}  // namespace skald
