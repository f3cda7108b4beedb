// Writes bytes to stdout as they are, at once. When the reader has gone away, write() throws
// Error(Exit::Closed), which ends the program quietly. Any other failure is an Error with the
// reason.
#pragma once

#include <string_view>

namespace skald {

class StandardOutput {
 public:
  void write(std::string_view bytes);
  bool is_terminal() const;
};

// Makes standard streams that the caller of the program has closed fail when they are used.
// Otherwise the next file that is opened would take their place. Call it before anything else.
void reserve_standard_streams();

bool stdin_is_terminal();
bool stderr_is_terminal();

}  // namespace skald
