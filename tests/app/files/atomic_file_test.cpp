#include "app/files/atomic_file.h"

#include <sys/stat.h>

#include <iterator>

#include "tests/catch.h"
#include "tests/error_text.h"
#include "tests/temp_folder.h"

namespace skald::test {
namespace {

namespace fs = std::filesystem;

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

TEST_CASE("an atomic file may be written from its end to its beginning") {
  TempFolder folder;
  const fs::path path = folder.path() / "model";
  const std::string head = "head", body = "body";
  AtomicFile file(path, {.mode = 0666, .replace = false, .reserve = 8});
  file.write(4, std::as_bytes(std::span(body)));
  file.write(0, std::as_bytes(std::span(head)));
  file.commit();
  CHECK(read_file(path) == "headbody");
}

TEST_CASE("only the user may read an atomic file, unless a mode is given") {
  TempFolder folder;
  const auto mode = [](const fs::path& path) {
    struct stat status = {};
    REQUIRE(::stat(path.c_str(), &status) == 0);
    return status.st_mode & 0777;
  };
  const fs::path path = folder.path() / "file";
  AtomicFile(path).commit();
  CHECK(mode(path) == 0600);
  AtomicFile file(path);
  file.set_mode(0640);
  file.commit();
  CHECK(mode(path) == 0640);
}

TEST_CASE("an atomic file replaces the target of a link, not the link") {
  TempFolder folder;
  const fs::path target = folder.write("target", "old"), link = folder.path() / "link";
  fs::create_symlink(target, link);
  AtomicFile file(link);
  file.write("new");
  file.commit();
  CHECK(fs::is_symlink(link));
  CHECK(read_file(target) == "new");
}

TEST_CASE("an atomic file that may not replace refuses, at the beginning and at the end") {
  TempFolder folder;
  const AtomicFileOptions options{.replace = false};
  const fs::path path = folder.path() / "file";
  AtomicFile late(path, options);
  late.write("late");
  folder.write("file", "first");
  CHECK(has(error_text([&] { AtomicFile{path, options}; }, Exit::Usage), "is there already"));
  CHECK_THROWS_AS(late.commit(), Error);
  CHECK(read_file(path) == "first");
}

TEST_CASE("check_writable reports an impossible file and creates none") {
  TempFolder folder;
  CHECK(has(error_text([&] { check_writable(folder.path()); }, Exit::Failed), "no regular file"));
  CHECK(has(error_text([&] { check_writable(folder.path() / "no" / "file"); }, Exit::Failed),
            "cannot be written: there is no folder"));
  CHECK(has(error_text([&] { check_writable("/dev/null"); }, Exit::Failed), "no regular file"));
  check_writable(folder.path() / "new");
  CHECK(!std::filesystem::exists(folder.path() / "new"));
}

}  // namespace
}  // namespace skald::test
