#include "app/terminal/word_wrap.h"

#include <sstream>

#include "app/terminal/terminal.h"
#include "tests/app/terminal/screen.h"
#include "tests/catch.h"

namespace skald::test {
namespace {

constexpr const char* kStory =
    "Once upon a time there was a little fox. It lived\nin a wood, beside\tan unbelievably-long-"
    "hyphenated-word-of-a-river, and it said: ünïcödé!  Two spaces. 你好世界你好世界 end";

// The text as it stands on a terminal of this width after it arrived in parts.
std::string on_screen(const std::string& text, int columns, size_t part) {
  Screen screen(columns);
  WordWrap wrap;
  for (size_t at = 0; at < text.size();) {
    size_t end = std::min(at + part, text.size());
    while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) ++end;
    screen.write(wrap.next(text.substr(at, end - at), columns));
    at = end;
  }
  return screen.text();
}

TEST_CASE("lines break between words, however the text is cut into parts") {
  find_terminal_traits();
  CHECK(wrapped("one two three", 8) == "one two\nthree");
  CHECK(wrapped("one two three", 9) == "one two\nthree");
  CHECK(wrapped("1234567 9", 8) == "1234567\n9");
  CHECK(wrapped("1234567 \n9", 8) == "1234567\n9");
  CHECK(wrapped("a\n\nb", 8) == "a\n\nb");
  CHECK(wrapped("", 8) == "");
  for (const int columns : {12, 20, 40, 80}) {
    const std::string whole = on_screen(kStory, columns, 1000);
    for (const size_t part : {1u, 2u, 3u, 7u}) {
      CAPTURE(columns, part);
      CHECK(on_screen(kStory, columns, part) == whole);
    }
  }
}

TEST_CASE("no word is cut, unless it is longer than a line") {
  find_terminal_traits();
  const std::string text = on_screen(kStory, 20, 3);
  std::istringstream lines(text);
  std::string words, line;
  while (std::getline(lines, line)) words += line + " ";
  for (const char* word : {"little", "lived", "beside", "said:", "ünïcödé!", "spaces."}) {
    CAPTURE(word, text);
    CHECK(words.find(word) != std::string::npos);
  }
  CHECK(text.starts_with("Once upon a time\nthere was a little\nfox. It lived\nin a wood,"));
}

TEST_CASE("Chinese text breaks between any two characters") {
  find_terminal_traits();
  CHECK(wrapped("你好世界", 6) == "你好\n世界");
  CHECK(text_columns("你a") == 3);
}

TEST_CASE("a line is cut at its last comma that fits") {
  find_terminal_traits();
  CHECK(fitted("12/100 lines, 0 failed, 3 s left", 80) == "12/100 lines, 0 failed, 3 s left");
  CHECK(fitted("12/100 lines, 0 failed, 3 s left", 31) == "12/100 lines, 0 failed");
  CHECK(fitted("12/100 lines, 0 failed, 3 s left", 22) == "12/100 lines, 0 failed");
  CHECK(fitted("12/100 lines, 0 failed", 13) == "12/100 lines");
  CHECK(fitted("no comma at all", 8) == "no comma");
  CHECK(fitted("ä±ö", 2) == "ä±");
}

}  // namespace
}  // namespace skald::test
