#include "app/jobs/failures.h"

#include "tests/catch.h"

namespace skald::test {
namespace {

TEST_CASE("the first three lines that failed are named with their reasons, in the input's order") {
  JobFailures failures;
  CHECK(failures.text() == "");
  failures.add(9, {"invalid_json", "not JSON"});
  CHECK(failures.text() == "skald: line 9 failed: invalid_json: not JSON\n");
  failures.add(3, {"invalid_request", "a\x1b[2J"});
  failures.add(20, {"c", "d"});
  failures.add(4, {"e", "f"});
  CHECK(failures.text() ==
        "skald: line 3 failed: invalid_request: a\\x1b[2J\n"
        "skald: line 4 failed: e: f\n"
        "skald: line 9 failed: invalid_json: not JSON\n"
        "skald: 1 more line failed; the result of each has the reason in \"error\"\n");
  failures.add(1, {"g", "h"});
  CHECK(failures.text().starts_with("skald: line 1 failed: g: h\nskald: line 3 failed"));
  CHECK(failures.text().find("skald: 2 more lines failed") != std::string::npos);
}

}  // namespace
}  // namespace skald::test
