#include "engine/grammar/front_end.h"

#include <algorithm>

namespace skald::grammar {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

int hex_value(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

bool Cursor::take(std::string_view word) {
  if (!starts(word)) return false;
  at_ += word.size();
  return true;
}

char32_t Cursor::character() {
  char32_t c = 0;
  if (!decode_utf8(text_, at_, c))
    fail_here(done() ? "unexpected end of the text" : "not valid UTF-8");
  return c;
}

char32_t Cursor::hex(int digits) {
  uint32_t value = 0;
  for (int i = 0; i < digits; ++i) {
    const int digit = hex_value(peek());
    if (digit < 0) fail_here(concat("expected ", digits, " hexadecimal digits"));
    value = value << 4 | static_cast<uint32_t>(digit);
    ++at_;
  }
  if (value > kLastCodePoint || (value >= 0xD800 && value <= 0xDFFF)) {
    fail_here("no such character; expected a Unicode code point that is no surrogate");
  }
  return value;
}

uint32_t Cursor::number(uint32_t most) {
  if (!is_digit(peek())) fail_here("expected a number");
  const size_t begin = at_;
  uint64_t value = 0;
  for (; is_digit(peek()); ++at_) {
    value = value * 10 + static_cast<uint64_t>(peek() - '0');
    if (value > most) fail_at(begin, concat("the number is too large; expected at most ", most));
  }
  return static_cast<uint32_t>(value);
}

std::string Cursor::place(size_t at) const {
  if (at < counted_to_) counted_to_ = lines_ = 0;
  const std::string_view before = text_.substr(0, at);
  lines_ += static_cast<size_t>(std::count(before.begin() + counted_to_, before.end(), '\n'));
  counted_to_ = before.size();
  const size_t newline = before.rfind('\n');
  const size_t column = newline == std::string_view::npos ? at + 1 : at - newline;
  return concat("line ", lines_ + 1, ", column ", column);
}

void Cursor::fail_at(size_t at, const std::string& message) const {
  fail(Exit::Usage, source_, ": ", place(at), ": ", message);
}

bool take_counts(Cursor& cursor, Spaces spaces, uint32_t& least, uint32_t& most) {
  const size_t begin = cursor.at();
  if (!cursor.take("{")) return false;
  const auto skip = [&] {
    while (spaces == Spaces::Allowed && (cursor.peek() == ' ' || cursor.peek() == '\t'))
      cursor.skip(1);
  };
  skip();
  if (!is_digit(cursor.peek())) {
    cursor.go_to(begin);
    return false;
  }
  least = most = cursor.number(kMostRepeats);
  skip();
  if (cursor.take(",")) {
    skip();
    most = is_digit(cursor.peek()) ? cursor.number(kMostRepeats) : kUnbounded;
    skip();
  }
  if (!cursor.take("}")) {
    cursor.go_to(begin);
    return false;
  }
  if (least > most)
    cursor.fail_at(begin, concat("repeats at least ", least, " and at most ", most));
  return true;
}

}  // namespace skald::grammar
