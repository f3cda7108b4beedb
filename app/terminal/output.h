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

// Streams that the caller has closed fail when they are used; without this the next file that is
// opened would take their place. To be called first of all.
void reserve_standard_streams();

bool stdin_is_terminal();
bool stderr_is_terminal();

}  // namespace skald
