#include "app/jobs/line.h"

#include "app/jobs/fields.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "tokenizer/text/json_problem.h"

namespace skald {
namespace {

constexpr int kMostDepth = 100;  // nesting of lists and objects; a schema may be deep

}  // namespace

void fail_request(const std::string& message) { throw LineError("invalid_request", message); }

Json parse_line(std::string_view text) {
  const auto shallow = [](int depth) {
    if (depth > kMostDepth) {
      throw LineError("invalid_json", concat("lists and objects lie in each other more than ",
                                             kMostDepth, " deep"));
    }
  };
  Json line;
  try {
    line = parse_json(text, shallow);
  } catch (const Json::exception&) {
    const std::string all = json_problem(text);  // "line 1, column 8: …", and a request is one line
    const size_t place = all.find("column ");
    throw LineError("invalid_json", "is no JSON: " + all.substr(place == all.npos ? 0 : place));
  }
  if (!line.is_object()) {
    throw LineError("invalid_json",
                    concat("expected an object, found ", printable(dump(line), 60)));
  }
  return line;
}

std::optional<std::string> line_id(const Json& line) {
  for (const char* name : {"custom_id", "id"}) {
    const auto found = line.find(name);
    if (found == line.end() || found->is_null()) continue;
    if (!found->is_string() && !found->is_number_integer()) {
      fail_field(name, "a text or a whole number", *found);
    }
    return dump(*found);
  }
  return {};
}

Json problem_json(const LineProblem& problem) {
  return {{"code", problem.code}, {"message", problem.message}};
}

}  // namespace skald
