#include "tokenizer/text/json_problem.h"

#include <algorithm>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "tokenizer/text/ascii.h"
#include "tokenizer/text/utf8.h"

namespace skald {
namespace {

// Reads a text as RFC 8259 says, up to the first place where it is no JSON.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {
    if (text_.starts_with("\xef\xbb\xbf")) at_ = 3;  // a byte order mark
  }

  std::string problem() {
    while (read()) {
    }
    return problem_.empty() ? "a number in it is too large" : problem_;
  }

 private:
  enum class Next { Value, ValueOrEnd, Key, KeyOrEnd, Colon, CommaOrEnd };

  // The next part. False at the end and at the problem.
  bool read() {
    while (more() && std::string_view(" \t\r\n").find(text_[at_]) != std::string_view::npos) ++at_;
    switch (next_) {
      case Next::Value:
        return value();
      case Next::ValueOrEnd:
        return peek() == ']' ? close() : value();
      case Next::Key:
      case Next::KeyOrEnd:
        if (next_ == Next::KeyOrEnd && peek() == '}') return close();
        if (peek() != '"') return expected(next_ == Next::Key ? "a name in \"\"" : "a name or }");
        next_ = Next::Colon;
        return string();
      case Next::Colon:
        if (peek() != ':') return expected("a colon");
        next_ = Next::Value;
        return skip(1);
      case Next::CommaOrEnd:
        return comma_or_end();
    }
    return false;
  }

  bool comma_or_end() {
    if (open_.empty()) return more() && expected("the end");
    if (peek() == (open_.back() == '{' ? '}' : ']')) return close();
    if (peek() != ',') return expected(open_.back() == '{' ? "a comma or }" : "a comma or ]");
    next_ = open_.back() == '{' ? Next::Key : Next::Value;
    return skip(1);
  }

  bool value() {
    next_ = Next::CommaOrEnd;
    const char c = peek();
    if (c == '"') return string();
    if (c == '-' || is_digit(c)) return number();
    if (c == '{' || c == '[') {
      open_.push_back(c);
      next_ = c == '{' ? Next::KeyOrEnd : Next::ValueOrEnd;
      return skip(1);
    }
    for (const std::string_view word : {"true", "false", "null"}) {
      if (text_.substr(at_).starts_with(word)) return skip(word.size());
    }
    return expected("a value");
  }

  bool close() {
    open_.pop_back();
    next_ = Next::CommaOrEnd;
    return skip(1);
  }

  bool number() {
    if (peek() == '-') ++at_;
    if (peek() == '0') {
      ++at_;
    } else if (!digits()) {
      return false;
    }
    if (peek() == '.' && (++at_, !digits())) return false;
    if (peek() != 'e' && peek() != 'E') return true;
    ++at_;
    if (peek() == '+' || peek() == '-') ++at_;
    return digits();
  }

  bool digits() {
    if (!is_digit(peek())) return expected("a digit");
    while (is_digit(peek())) ++at_;
    return true;
  }

  bool string() {
    ++at_;
    while (more() && text_[at_] != '"') {
      if (text_[at_] == '\\') {
        if (!escape()) return false;
      } else if (static_cast<unsigned char>(text_[at_]) < 0x20) {
        return says("a control character in a text, which is written as \\n, \\t or \\u0001");
      } else if (const size_t length = utf8_length(text_.substr(at_))) {
        at_ += length;
      } else {
        return says("a byte that is no UTF-8");
      }
    }
    return more() ? skip(1) : expected("the end of a text, \"");
  }

  bool escape() {
    ++at_;
    if (peek() == 'u') {
      const unsigned unit = code_unit();
      const bool low = unit >= 0xdc00 && unit < 0xe000, high = unit >= 0xd800 && unit < 0xdc00;
      if (!problem_.empty()) return false;
      if (low) return says("half of a character, \\u of a low surrogate alone");
      if (!high) return true;
      if (!text_.substr(at_).starts_with("\\u")) return says("half of a character");
      ++at_;
      const unsigned second = code_unit();
      if (!problem_.empty()) return false;
      return (second >= 0xdc00 && second < 0xe000) || says("half of a character");
    }
    if (std::string_view("\"\\/bfnrt").find(peek()) == std::string_view::npos || !more()) {
      return says("an unknown escape in a text; \\\\ is a backslash");
    }
    return skip(1);
  }

  unsigned code_unit() {  // behind the u
    unsigned unit = 0;
    ++at_;
    for (int i = 0; i < 4; ++i) {
      if (!is_hex(peek())) {
        says("\\u needs four hexadecimal digits");
        return 0;
      }
      const char c = peek();
      unit = 16 * unit + static_cast<unsigned>(is_digit(c) ? c - '0' : (c | 0x20) - 'a' + 10);
      ++at_;
    }
    return unit;
  }

  bool more() const { return at_ < text_.size(); }
  char peek() const { return more() ? text_[at_] : '\0'; }
  bool skip(size_t bytes) {
    at_ += bytes;
    return true;
  }

  bool expected(std::string_view what) {
    const std::string_view rest = text_.substr(std::min(at_, text_.size()));
    const size_t length = std::max<size_t>(utf8_length(rest), 1);
    return says(concat("expected ", what, ", found ",
                       rest.empty() ? "the end" : "'" + printable(rest.substr(0, length)) + "'"));
  }

  bool says(const std::string& what) {
    const std::string_view before = text_.substr(0, std::min(at_, text_.size()));
    const size_t newline = before.rfind('\n');
    const size_t column = before.size() - (newline == before.npos ? 0 : newline + 1) + 1;
    problem_ = concat("line ", 1 + std::count(before.begin(), before.end(), '\n'), ", column ",
                      column, ": ", what);
    return false;
  }

  std::string_view text_;
  size_t at_ = 0;
  Next next_ = Next::Value;
  std::vector<char> open_;
  std::string problem_;
};

}  // namespace

std::string json_problem(std::string_view text) { return Reader(text).problem(); }

}  // namespace skald
