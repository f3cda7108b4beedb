#include "app/terminal/cursor_report.h"

#include "tests/catch.h"

namespace skald::test {
namespace {

TEST_CASE("a terminal's answer is taken out of what was typed") {
  std::string bytes = "ab\x1b[12;34Rcd";
  CHECK(take_cursor_column(bytes) == 33);
  CHECK(bytes == "abcd");
  for (const char* typed : {"", "\x1b[", "\x1b[12", "\x1b[12;", "\x1b[12;34", "\x1b[A\x1b[1;5D"}) {
    std::string other = typed;
    CHECK(!take_cursor_column(other));
    CHECK(other == typed);
  }
  bytes = "\x1b[A\x1b[1;1R";
  CHECK(take_cursor_column(bytes) == 0);
  CHECK(bytes == "\x1b[A");
}

TEST_CASE("the cursor's column tells whether a terminal has wrapped a line anew") {
  const std::wstring text(62, L'x');
  CHECK(rows_above(text, 80, 40, 22) == 1);  // anew: 62 = 40 + 22
  CHECK(rows_above(text, 80, 40, 39) == 0);  // kept: one row, which the window cuts
  CHECK(rows_above(text, 40, 80, 62) == 0);
  CHECK(rows_above(text, 40, 80, 22) == 1);
  CHECK(rows_above(text, 80, 40, 5) == 0);  // neither
  CHECK(rows_above(std::wstring(10, L'x'), 80, 40, 10) == 0);
  CHECK(rows_above(std::wstring(62, L'x') + L"\ny", 80, 40, 1) == 1);  // both: the smaller number
  CHECK(rows_above(L"a\n\nb", 80, 80, 1) == 2);
}

}  // namespace
}  // namespace skald::test
