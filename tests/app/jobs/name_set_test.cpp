#include "app/jobs/name_set.h"

#include <string>

#include "tests/catch.h"

namespace skald::test {

TEST_CASE("a set of names knows each of many names, in less than 32 bytes a name") {
  NameSet names;
  for (int pass = 0; pass < 2; ++pass) {
    size_t fresh = 0;
    for (int i = 0; i < 20'000; ++i) fresh += names.insert("\"line-" + std::to_string(i) + "\"");
    CHECK(fresh == (pass == 0 ? 20'000 : 0));
  }
  CHECK(names.size() == 20'000);
  CHECK(names.insert(""));
  CHECK(!names.insert(""));
  CHECK(names.bytes() < 32 * names.size());
}

}  // namespace skald::test
