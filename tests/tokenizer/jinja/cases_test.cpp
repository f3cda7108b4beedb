// Templates give the output of Jinja2. The cases are written by scripts/make_jinja_cases.py.
#include <nlohmann/json.hpp>

#include "tests/catch.h"
#include "tests/error_text.h"
#include "tests/paths.h"
#include "tests/temp_folder.h"
#include "tokenizer/jinja/template.h"

namespace skald::test {
namespace {

using Json = nlohmann::ordered_json;

// The time at which the expected outputs were made: Friday, 26 July 2024, 13:05.
std::tm july() {
  std::tm now = {};
  now.tm_year = 124, now.tm_mon = 6, now.tm_mday = 26, now.tm_hour = 13, now.tm_min = 5;
  now.tm_wday = 5, now.tm_yday = 207;
  return now;
}

// The output of a case, or a line that begins with "refused" or "failed".
std::string result_of(const Json& row) {
  try {
    const jinja::Template parsed("case", row["template"].get<std::string>());
    const jinja::Value variables = jinja::from_json(row["variables"].dump(), "variables");
    jinja::RenderOptions options;
    options.now = july();
    return parsed.render(*variables.as_dict(), options);
  } catch (const Error& error) {
    return concat(error.code() == Exit::Model ? "refused: " : "failed: ", error.what());
  }
}

TEST_CASE("templates give Jinja2's output, and fail where Jinja2 fails") {
  int cases = 0;
  for (const auto& file : std::filesystem::directory_iterator(data_dir() / "jinja")) {
    for (const Json& row : Json::parse(read_file(file.path()))) {
      ++cases;
      const std::string result = result_of(row);
      CAPTURE(file.path().filename().string(), row["template"].get<std::string>(), row.dump());
      if (row.contains("output")) {
        CHECK(result == row["output"].get<std::string>());
      } else if (row.contains("error")) {
        CHECK(result.starts_with("failed: case: line "));
      } else {
        CHECK(result.starts_with("refused: case: line "));
      }
    }
  }
  CHECK(cases > 250);
}

}  // namespace
}  // namespace skald::test
