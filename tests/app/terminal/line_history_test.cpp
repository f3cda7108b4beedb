#include "app/terminal/line_history.h"

#include "tests/catch.h"
#include "tests/error_text.h"
#include "tests/temp_folder.h"

namespace skald::test {
namespace {

using Entries = std::vector<std::string>;

TEST_CASE("a file keeps the history; entries may hold line ends and backslashes") {
  TempFolder folder;
  const auto file = folder.path() / "a" / "b" / "history";
  const Entries entries{"one", "two\nlines\n", "C:\\new \\\\", "\u00e4", "one"};
  LineHistory first(file);
  for (const std::string& entry : entries) first.add(entry);
  first.add("one");  // not twice in a row
  first.add("");
  CHECK(first.entries() == entries);
  CHECK(first.problem() == "");
  CHECK(LineHistory(file).entries() == entries);
  CHECK(read_file(file) == "one\ntwo\\nlines\\n\nC:\\\\new \\\\\\\\\n\u00e4\none\n");
  // Two dialogues at the same time append to one history.
  LineHistory second(file);
  first.add("of the first");
  second.add("of the second");
  CHECK(LineHistory(file).entries().size() == entries.size() + 2);
}

TEST_CASE("a long history is cut to its newest entries") {
  TempFolder folder;
  std::string lines;
  for (size_t i = 0; i <= 2 * LineHistory::kMostEntries; ++i) lines += std::to_string(i) + "\n";
  const auto file = folder.write("history", lines);
  const LineHistory history(file);
  CHECK(history.entries().size() == LineHistory::kMostEntries);
  CHECK(history.entries().back() == std::to_string(2 * LineHistory::kMostEntries));
  CHECK(LineHistory(file).entries() == history.entries());
  CHECK(read_file(file).size() < lines.size());
}

TEST_CASE("an unusable history file is a reported problem, not an error") {
  TempFolder folder;
  LineHistory folder_instead(folder.path());
  CHECK(has(folder_instead.problem(), "is no regular file"));
  LineHistory nowhere("/proc/nowhere/history");
  nowhere.add("a");
  CHECK(has(nowhere.problem(), "/proc/nowhere/history: cannot be written: "));
  nowhere.add("b");
  CHECK(nowhere.entries() == Entries{"a", "b"});
  LineHistory none{{}};
  none.add("a");
  CHECK(none.problem() == "");
  // Bytes that are not UTF-8, and a last line without its end.
  const auto odd = folder.write("odd", "a\xff\n\\\nb\\");
  CHECK(LineHistory(odd).entries() == Entries{"a\uFFFD", "\\", "b\\"});
}

}  // namespace
}  // namespace skald::test
