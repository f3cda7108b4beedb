// check() alone, for files that nvcc parses: error.h needs streams, which take a second to parse
// for each kernel file. Everyone else includes error.h.
#pragma once

#include <source_location>

namespace skald {

// For a broken invariant inside skald itself: prints the place and aborts.
[[noreturn]] void check_failed(const char* what, const std::source_location& where);

inline void check(bool holds, const char* what,
                  const std::source_location& where = std::source_location::current()) {
  if (!holds) check_failed(what, where);
}

}  // namespace skald
