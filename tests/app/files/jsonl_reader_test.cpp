#include "app/files/jsonl_reader.h"

#include <fcntl.h>
#include <unistd.h>

#include "tests/catch.h"
#include "tests/error_text.h"
#include "tests/hostile.h"
#include "tests/temp_folder.h"

namespace skald::test {
namespace {

using Lines = std::vector<std::pair<int64_t, std::string>>;

Lines read_lines(const std::string& path, LineRange range = {}) {
  JsonlReader reader(path, range);
  Lines lines;
  JsonlLine line;
  while (reader.next(line)) {
    CHECK(!line.too_long);
    lines.emplace_back(line.number, line.text);
  }
  return lines;
}

TEST_CASE(
    "a JSONL file may have Unix or Windows line ends, a byte order mark, blank lines and an "
    "unended last line") {
  TempFolder folder;
  const std::string file =
      folder.write("in.jsonl", "\xef\xbb\xbf{\"a\":1}\r\n\n  \t\r\n{}\nlast").string();
  CHECK(read_lines(file) == Lines{{1, "{\"a\":1}"}, {4, "{}"}, {5, "last"}});
  CHECK(read_lines(folder.write("empty", "").string()).empty());
  CHECK(read_lines(folder.write("blank", "\n\n \r\n").string()).empty());
  CHECK(read_lines(folder.write("bom", "\xef\xbb\xbf").string()).empty());
  CHECK(read_lines(folder.write("middle", "a\n\xef\xbb\xbf").string()).size() == 2);
}

TEST_CASE("a NUL byte belongs to its line") {
  TempFolder folder;
  const std::string file = folder.write("in", std::string("a\0b\n\0\nc", 7)).string();
  CHECK(read_lines(file) ==
        Lines{{1, std::string("a\0b", 3)}, {2, std::string("\0", 1)}, {3, "c"}});
}

TEST_CASE("a range of lines counts blank lines, as editors do") {
  TempFolder folder;
  const std::string file = folder.write("in", "1\n\n3\n4\n5\n").string();
  CHECK(read_lines(file, {2, 4}) == Lines{{3, "3"}, {4, "4"}});
  CHECK(read_lines(file, {5, 99}) == Lines{{5, "5"}});
  CHECK(read_lines(file, {6, 99}).empty());
  const LineRange range = parse_line_range("10:20", "--lines");
  CHECK((range.first == 10 && range.last == 20));
  CHECK(parse_line_range("10:", "--lines").last == INT64_MAX);
  CHECK(parse_line_range(":7", "--lines").first == 1);
  for (const char* bad : {"", ":", "5", "0:3", "5:4", "a:b", "1:2:3", "-1:4", "1: 2"}) {
    CAPTURE(bad);
    CHECK(has(error_text([&] { parse_line_range(bad, "--lines"); }, Exit::Usage), "as in 1:500"));
  }
}

TEST_CASE(
    "only the beginning of a line that is too long is kept, and the next line is read whole") {
  TempFolder folder;
  std::string text = "first\n";
  text.resize(text.size() + 100'000'000, 'x');
  const std::string file = folder.write("in", text + "\nlast\n").string();
  JsonlReader reader(file, {}, {.line = 1 << 20, .kept = 10});
  JsonlLine line;
  REQUIRE(reader.next(line));
  REQUIRE(reader.next(line));
  CHECK(line.too_long);
  CHECK(line.text == "xxxxxxxxxx");
  CHECK(line.bytes == 100'000'000);
  REQUIRE(reader.next(line));
  CHECK((line.text == "last" && line.number == 3 && !line.too_long));
  CHECK(line.offset == 6 + 100'000'001);
  CHECK(!reader.next(line));
  // A reader that stores the whole line runs out of memory in the child.
  const HostileResult result = open_in_child(1, [&](int) {
    JsonlReader again(file, {}, {.line = 1 << 20, .kept = 10});
    while (again.next(line)) continue;
  });
  CHECK(result.loaded == 1);
}

TEST_CASE("lines that are appended while the file is read are read too") {
  TempFolder folder;
  const std::string file = folder.write("in", "1\n2\n").string();
  JsonlReader reader(file);
  JsonlLine line;
  REQUIRE(reader.next(line));
  const auto append = [&](const std::string& text) {
    std::ofstream out(file, std::ios::app);
    out << text;
  };
  append("3\n");
  REQUIRE(reader.next(line));
  REQUIRE(reader.next(line));
  CHECK(line.text == "3");
  CHECK(reader.size() == 6);
}

TEST_CASE("a missing file and a folder are refused with the reason") {
  TempFolder folder;
  const std::string missing = (folder.path() / "none").string();
  CHECK(has(error_text([&] { JsonlReader reader(missing); }, Exit::Usage), "cannot be opened"));
  const std::string is_folder = folder.path().string();
  CHECK(has(error_text([&] { JsonlReader reader(is_folder); }, Exit::Usage), "is a folder"));
}

}  // namespace
}  // namespace skald::test
