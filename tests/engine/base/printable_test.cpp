#include "engine/base/printable.h"
#include "tests/catch.h"

using skald::printable;

TEST_CASE("printable() keeps ordinary text of any language") {
  CHECK(printable("blk.0.attn_q.weight") == "blk.0.attn_q.weight");
  CHECK(printable("Grüße, 你好 🙂") == "Grüße, 你好 🙂");
  CHECK(printable("") == "");
}

TEST_CASE("printable() escapes control characters and broken UTF-8") {
  CHECK(printable("\x1b]0;x\a\n") == "\\x1b]0;x\\x07\\x0a");
  CHECK(printable("\x7f") == "\\x7f");
  CHECK(printable("\xc2\x9b") == "\\xc2\\x9b");  // a C1 control character, which acts as ESC [
  CHECK(printable("\xe2\x80\xae") == "\\xe2\\x80\\xae");  // turns the text right to left
  CHECK(printable("\xff\xc3") == "\\xff\\xc3");           // not UTF-8, and a character cut short
  CHECK(printable("\xc0\xaf") == "\\xc0\\xaf");           // an overlong encoding
  CHECK(printable("\xed\xa0\x80") == "\\xed\\xa0\\x80");  // half of a surrogate pair
  CHECK(printable("\xf4\x90\x80\x80") == "\\xf4\\x90\\x80\\x80");
}

TEST_CASE("printable() cuts a long text between characters") {
  CHECK(printable("abcdef", 3) == "abc...");
  CHECK(printable("abc", 3) == "abc");
  CHECK(printable("äöü", 3) == "äö...");
}
