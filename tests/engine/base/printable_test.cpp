#include "engine/base/printable.h"
#include "tests/catch.h"

using skald::printable;

TEST_CASE("printable keeps ordinary text of any language") {
  CHECK(printable("blk.0.attn_q.weight") == "blk.0.attn_q.weight");
  CHECK(printable("Grüße, 你好 🙂") == "Grüße, 你好 🙂");
  CHECK(printable("") == "");
}

TEST_CASE("printable shows what a terminal would obey or choke on") {
  CHECK(printable("\x1b]0;x\a\n") == "\\x1b]0;x\\x07\\x0a");
  CHECK(printable("\x7f") == "\\x7f");
  CHECK(printable("\xc2\x9b") == "\\xc2\\x9b");           // C1, an ESC [ in one character
  CHECK(printable("\xe2\x80\xae") == "\\xe2\\x80\\xae");  // right to left from here
  CHECK(printable("\xff\xc3") == "\\xff\\xc3");           // not UTF-8, and cut short
  CHECK(printable("\xc0\xaf") == "\\xc0\\xaf");           // overlong
  CHECK(printable("\xed\xa0\x80") == "\\xed\\xa0\\x80");  // a lone surrogate
  CHECK(printable("\xf4\x90\x80\x80") == "\\xf4\\x90\\x80\\x80");
}

TEST_CASE("printable cuts long text between characters") {
  CHECK(printable("abcdef", 3) == "abc...");
  CHECK(printable("abc", 3) == "abc");
  CHECK(printable("äöü", 3) == "äö...");
}
