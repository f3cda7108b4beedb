#include "app/jobs/latencies.h"

#include "app/files/json.h"
#include "tests/catch.h"

namespace skald::test {
namespace {

TEST_CASE("percentiles of latencies are times of lines") {
  Latencies latencies;
  CHECK(latencies.json().is_null());
  latencies.add(3);
  CHECK(latencies.json() == Json{{"lines", 1}, {"p50", 3}, {"p95", 3}, {"max", 3}});
  for (int i = 1; i <= 19; ++i) latencies.add(100 + i);
  CHECK(latencies.json() == Json{{"lines", 20}, {"p50", 109}, {"p95", 118}, {"max", 119}});
}

}  // namespace
}  // namespace skald::test
