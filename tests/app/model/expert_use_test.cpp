#include "app/model/expert_use.h"

#include "app/files/json.h"
#include "app/run/report.h"
#include "tests/catch.h"
#include "tests/error_text.h"

namespace skald::test {

TEST_CASE("what a cache of experts did is said in percent") {
  CHECK(expert_use_text({}).empty());
  CHECK(expert_use_json({}).is_null());
  const ExpertUse use = {900, 75, 25};
  CHECK(expert_use_text(use) ==
        "chosen experts: 90 % in the GPU's cache, 8 % copied to it, 3 % read or computed on the "
        "host");
  CHECK(expert_use_json(use).dump() == R"({"found":900,"copied":75,"on_host":25})");
}

TEST_CASE("with a cache of experts, the speed that was foretold is no bound") {
  RunReport report;
  report.generated.tokens = 5;
  report.most_tokens = 50;
  CHECK(has(stats_line(report), " of at most 50.0)"));
  report.experts = {3, 1, 0};
  const std::string line = stats_line(report);
  CHECK(has(line, " of 50.0, for experts chosen at random)"));
  CHECK(has(line, "; chosen experts: 75 % in the GPU's cache, 25 % copied to it, "));
}

}  // namespace skald::test
