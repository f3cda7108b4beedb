// A line of an input on its way to a result: its place, its name, and why it has none.
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "app/files/json.h"

namespace skald {

// Why a line gets an error object instead of a result.
struct LineProblem {
  std::string code;  // "invalid_json"
  std::string message;
};

// A problem of one line, which ends neither the program nor the other lines.
class LineError : public std::runtime_error {
 public:
  LineError(std::string code, const std::string& message)
      : std::runtime_error(message), code_(std::move(code)) {}
  LineProblem problem() const { return {code_, what()}; }

 private:
  std::string code_;
};

[[noreturn]] void fail_request(const std::string& message);  // LineError "invalid_request"

struct JobLine {
  int64_t turn = 0;          // its place in the input, from 0
  int64_t line = 0;          // its number in the file, from 1
  std::string id;            // as JSON
  std::string request_hash;  // over everything that decides about the result
  Json json;                 // the line as JSON; null if lines are texts
  std::string text;          // the line, if lines are texts
  std::optional<LineProblem> problem;
};

// The JSON object of a line. Throws LineError.
Json parse_line(std::string_view text);

// The "custom_id" or "id" of a line, as JSON; nothing where the line has none. Throws LineError
// where the id is neither a text nor an integer.
std::optional<std::string> line_id(const Json& line);

// {"code": ..., "message": ...}
Json problem_json(const LineProblem& problem);

}  // namespace skald
