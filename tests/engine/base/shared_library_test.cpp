#include "engine/base/shared_library.h"

#include <cmath>

#include "tests/catch.h"
#include "tests/error_text.h"

namespace skald::test {
namespace {

TEST_CASE("the first library that is there is opened, and its functions can be called") {
  SharedLibrary library({"libnone-of-this-name.so.7", "libm.so.6"});
  REQUIRE(library.problem() == "");
  const auto square_root = reinterpret_cast<double (*)(double)>(library.find("sqrt"));
  REQUIRE(square_root != nullptr);
  CHECK(square_root(9) == 3);
  CHECK(library.problem() == "");
}

TEST_CASE("a missing library is no error until its functions are needed; the first name is said") {
  SharedLibrary library({"libnone-of-this-name.so.7", "/nonexistent/libnone.so"});
  CHECK(has(library.problem(), "libnone-of-this-name.so.7"));
  CHECK(library.find("sqrt") == nullptr);
}

TEST_CASE("a library without a function that is needed is not taken for whole") {
  SharedLibrary library({"libm.so.6"});
  CHECK(library.find("no_such_function") == nullptr);
  CHECK(library.problem() == "the library has no function no_such_function");
}

}  // namespace
}  // namespace skald::test
