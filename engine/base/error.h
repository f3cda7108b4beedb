// Two kinds of errors. If the user or the machine is wrong, throw Error: one line that says what,
// where, expected and found, and what to do. main() catches it and exits with its code. If skald is
// wrong, call check(): no input may ever make a check() fail.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "engine/base/check.h"

namespace skald {

// Exit codes that scripts may rely on; README.md documents the same list.
enum class Exit : int {
  Done = 0,
  Failed = 1,
  Usage = 2,
  Model = 3,          // the model cannot be read
  Memory = 4,         // the model does not fit in memory
  SomeLines = 5,      // finished, but some lines failed
  Interrupted = 130,  // Ctrl-C
  Closed = 141,       // the reader of stdout went away
};

class Error : public std::runtime_error {
 public:
  Error(Exit code, const std::string& message) : std::runtime_error(message), code_(code) {}
  Exit code() const { return code_; }

 private:
  Exit code_;
};

// Concatenates anything that can be streamed: concat("expected ", 3, " rows").
template <class... Parts>
std::string concat(Parts&&... parts) {
  std::ostringstream out;
  out.exceptions(std::ios::badbit);  // without memory, std::bad_alloc in place of half a text
  (out << ... << std::forward<Parts>(parts));
  return out.str();
}

template <class... Parts>
[[noreturn]] void fail(Exit code, Parts&&... parts) {
  throw Error(code, concat(std::forward<Parts>(parts)...));
}

// The candidate nearest to `word` by edit distance, or "" if none is near. For messages such as
// "did you mean 'bench'?"
template <class Candidates>
std::string_view nearest(std::string_view word, const Candidates& candidates);

int edit_distance(std::string_view a, std::string_view b);

template <class Candidates>
std::string_view nearest(std::string_view word, const Candidates& candidates) {
  std::string_view best;
  int best_distance = static_cast<int>(word.size()) / 3 + 2;  // more edits are no typo
  for (std::string_view candidate : candidates) {
    const int distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

}  // namespace skald
