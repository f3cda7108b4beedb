// Shared by the grammar parsers: a position in a text, and messages that name the position.
#pragma once

#include <string>
#include <string_view>

#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "engine/grammar/rules.h"
#include "engine/grammar/utf8_ranges.h"

namespace skald::grammar {

inline constexpr int kMostGroups = 200;  // nesting limit

class Cursor {
 public:
  // `source` is the name of the text in messages: "grammar.gbnf", "--regex".
  Cursor(std::string_view text, std::string source) : text_(text), source_(std::move(source)) {}

  bool done() const { return at_ >= text_.size(); }
  char peek(size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  bool starts(std::string_view word) const { return text_.substr(at_).starts_with(word); }
  bool take(std::string_view word);  // false: `word` does not come next
  void skip(size_t bytes) { at_ += bytes; }
  char32_t character();            // takes the next one
  char32_t hex(int digits);        // takes exactly `digits` hexadecimal digits
  uint32_t number(uint32_t most);  // takes a decimal number
  size_t at() const { return at_; }
  void go_to(size_t at) { at_ = at; }
  std::string_view between(size_t from, size_t to) const { return text_.substr(from, to - from); }

  std::string place() const { return place(at_); }  // "line 3, column 7"
  std::string place(size_t at) const;
  [[noreturn]] void fail_here(const std::string& message) const { fail_at(at_, message); }
  [[noreturn]] void fail_at(size_t at, const std::string& message) const;

 private:
  std::string_view text_;
  std::string source_;
  size_t at_ = 0;
  mutable size_t counted_to_ = 0, lines_ = 0;  // newlines before counted_to_, for place()
};

// Takes "{2}", "{2,}" or "{2,5}" if one comes next. GBNF allows spaces in it; in ECMAScript "{ 2}"
// is text.
enum class Spaces : uint8_t { Allowed, AreText };
bool take_counts(Cursor& cursor, Spaces spaces, uint32_t& least, uint32_t& most);

}  // namespace skald::grammar
