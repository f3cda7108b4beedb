#include "app/files/atomic_file.h"

#include <iterator>

#include "tests/catch.h"
#include "tests/error_text.h"
#include "tests/temp_folder.h"

namespace skald::test {
namespace {

TEST_CASE("an AtomicFile that is not committed leaves the old file unchanged") {
  TempFolder folder;
  const auto path = folder.write("file", "before");
  {
    AtomicFile file(path);
    file.write(std::as_bytes(std::span("after")));
  }
  CHECK(read_file(path) == "before");
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
}

TEST_CASE("a committed AtomicFile replaces the old file") {
  TempFolder folder;
  const auto path = folder.write("file", "before");
  AtomicFile file(path);
  file.write(std::as_bytes(std::span("after", 5)));
  file.commit();
  CHECK(read_file(path) == "after");
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
}

TEST_CASE("check_writable reports an impossible file and creates none") {
  TempFolder folder;
  CHECK(has(error_text([&] { check_writable(folder.path()); }, Exit::Failed), "no regular file"));
  CHECK(has(error_text([&] { check_writable(folder.path() / "no" / "file"); }, Exit::Failed),
            "cannot be written: No such file"));
  check_writable(folder.path() / "new");
  CHECK(!std::filesystem::exists(folder.path() / "new"));
}

}  // namespace
}  // namespace skald::test
