// The program works wherever it is copied to: it finds the bundled model relative to its own path.
#include <regex>

#include "tests/catch.h"
#include "tests/error_text.h"
#include "tests/process.h"
#include "tests/temp_folder.h"

namespace skald::test {
namespace {

namespace fs = std::filesystem;

Outcome run_copy(const fs::path& program, std::vector<std::string> arguments) {
  Invocation invocation{std::move(arguments), ""};
  invocation.program = program.string();
  invocation.seconds = 120;
  return run_program(invocation);
}

const std::vector<std::string> kStory = {"run", "-n", "4", "--temp", "0", "Once upon a time"};

TEST_CASE("a copy of the program finds the bundled model in share beside it or beside its folder") {
  const std::string expected = skald(kStory).out;
  REQUIRE(expected.size() > 4);
  const fs::path share = built_program().parent_path() / "share" / "skald";
  for (const char* program : {"skald", "bin/skald"}) {
    CAPTURE(program);
    TempFolder folder;
    const fs::path copy = folder.path() / program;
    fs::create_directories(copy.parent_path());
    fs::create_directories(folder.path() / "share");
    fs::copy_file(built_program(), copy);
    fs::copy(share, folder.path() / "share" / "skald", fs::copy_options::recursive);
    const Outcome story = run_copy(copy, kStory);
    CHECK(story.code == 0);
    CHECK(story.out == expected);
    // A link in a folder of PATH leads to the program's own place.
    const fs::path link = folder.path() / "link";
    fs::create_symlink(copy, link);
    CHECK(run_copy(link, kStory).out == expected);
  }
}

TEST_CASE("an installation runs after its prefix was moved") {
  TempFolder folder;
  const fs::path first = folder.path() / "first", second = folder.path() / "second";
  const std::string install = "cmake --install '" + built_program().parent_path().string() +
                              "' --prefix '" + first.string() + "' > /dev/null";
  REQUIRE(std::system(install.c_str()) == 0);
  fs::rename(first, second);
  const Outcome story = run_copy(second / "bin" / "skald", kStory);
  CHECK(story.code == 0);
  CHECK(story.out == skald(kStory).out);
  CHECK(fs::exists(second / "share" / "man" / "man1" / "skald.1"));
}

TEST_CASE("without the bundled model selftest runs, and run says what is missing") {
  TempFolder folder;
  const fs::path alone = folder.path() / "skald";
  fs::copy_file(built_program(), alone);
  const Outcome test = run_copy(alone, {"selftest", "--device", "cpu"});
  CHECK(test.code == 0);
  CHECK(has(test.out, "cases are right"));
  CHECK(has(test.out, "the bundled model is not installed: no text was compared"));
  const Outcome story = run_copy(alone, kStory);
  CHECK(story.code == 3);
  CHECK(has(story.err, "the bundled model is missing"));
}

TEST_CASE("skald --version names the version, the commit and what the program can run on") {
  const std::regex line(
      "skald [0-9]+\\.[0-9]+\\.[0-9]+ \\(commit ([0-9a-f]{12}|unknown), "
      "(CPU only|CUDA [0-9.]+ for [0-9a-z -]+)\\)\n");
  const std::string version = skald({"--version"}).out;
  CAPTURE(version);
  CHECK(std::regex_match(version, line));
}

}  // namespace
}  // namespace skald::test
