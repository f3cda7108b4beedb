#include "models/files/mapped_file.h"

#include <sys/stat.h>

#include <cstdlib>

#include "tests/catch.h"
#include "tests/error_text.h"
#include "tests/temp_folder.h"

using namespace skald;
using test::has;
using test::TempFolder;

namespace {

std::string refusal(const std::filesystem::path& path) {
  return test::error_text([&] { MappedFile file(path); });
}

}  // namespace

TEST_CASE("a mapped file has the file's bytes, also through a symbolic link") {
  const TempFolder folder;
  const auto path = folder.write("f", "hello");
  std::filesystem::create_symlink("f", folder.path() / "link");
  for (const auto& name : {path, folder.path() / "link"}) {
    const MappedFile file(name);
    REQUIRE(file.bytes().size() == 5);
    CHECK(file.bytes()[4] == std::byte{'o'});
    CHECK(file.path() == name.string());
  }
}

TEST_CASE("folders, empty files, pipes and devices are refused at once") {
  const TempFolder folder;
  CHECK(has(refusal(folder.path() / "absent"), "absent: cannot be opened: No such file"));
  CHECK(has(refusal(folder.path()), ": is a folder, expected a file"));
  CHECK(has(refusal(folder.write("empty", "")), "is empty"));
  REQUIRE(::mkfifo((folder.path() / "pipe").c_str(), 0600) == 0);
  CHECK(has(refusal(folder.path() / "pipe"), "is a pipe"));
  CHECK(has(refusal("/dev/zero"), "is a device"));
  std::filesystem::create_symlink("loop", folder.path() / "loop");
  CHECK(has(refusal(folder.path() / "loop"), "loop: cannot be opened"));
  CHECK(has(refusal(folder.path() / "new\nline"), "new\\x0aline: cannot be opened"));
}

TEST_CASE("a change of a mapped file is detected") {
  const TempFolder folder;
  const auto path = folder.write("f", std::string(10000, 'x'));
  const MappedFile file(path);
  file.check_whole();
  const auto message = [&] { return test::error_text([&] { file.check_whole(); }); };
  const auto time = std::filesystem::last_write_time(path);
  std::filesystem::last_write_time(path, time + std::chrono::seconds(1));
  CHECK(has(message(), "was changed"));
  std::filesystem::last_write_time(path, time);
  CHECK(message() == "");
  std::filesystem::resize_file(path, 5000);
  CHECK(has(message(), "had 10000 bytes when it was opened and has 5000 now"));
}
