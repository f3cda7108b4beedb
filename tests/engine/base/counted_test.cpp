#include "engine/base/counted.h"

#include <cstdint>

#include "tests/catch.h"

namespace skald::test {
namespace {

TEST_CASE("a noun has its plural, except after 1") {
  CHECK(counted(0, "line") == "0 lines");
  CHECK(counted(1, "line") == "1 line");
  CHECK(counted(int64_t{2}, "new token") == "2 new tokens");
}

}  // namespace
}  // namespace skald::test
