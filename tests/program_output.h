// Runs the built program and checks how it ends.
#pragma once

#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/error_text.h"
#include "tests/process.h"

namespace skald::test {

// The program's stdout. Its exit code must be `code`.
inline std::string output(const std::vector<std::string>& arguments, const std::string& input = "",
                          int code = 0) {
  const Outcome outcome = skald(arguments, input);
  CAPTURE(arguments, outcome.err);
  CHECK(outcome.code == code);
  return outcome.out;
}

// The program's stdout. The program must succeed and print nothing on stderr.
inline std::string silent_output(const std::vector<std::string>& arguments,
                                 const std::string& input = "") {
  const Outcome outcome = skald(arguments, input);
  CAPTURE(arguments);
  CHECK(outcome.code == 0);
  CHECK(outcome.err == "");
  return outcome.out;
}

// The program must have ended with `code`, nothing on stdout, and one line on stderr that contains
// `says`.
inline void check_refused(const Outcome& outcome, int code, const std::string& says) {
  CAPTURE(says, outcome.err, outcome.signal);
  CHECK(outcome.code == code);
  CHECK(outcome.out == "");
  CHECK(outcome.err.starts_with("skald: error: "));
  CHECK(outcome.err.find('\n') == outcome.err.size() - 1);
  CHECK(has(outcome.err, says));
}

}  // namespace skald::test
