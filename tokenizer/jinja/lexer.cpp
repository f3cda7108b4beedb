#include "tokenizer/jinja/lexer.h"

#include <algorithm>
#include <array>

#include "engine/base/printable.h"
#include "tokenizer/jinja/unicode.h"
#include "tokenizer/text/ascii.h"

namespace skald::jinja {
namespace {

bool is_name_part(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}

std::string with_newlines(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\r') {
      out += text[i];
    } else {
      out += '\n';
      if (i + 1 < text.size() && text[i + 1] == '\n') ++i;
    }
  }
  if (out.ends_with('\n')) out.pop_back();  // Jinja drops the last newline of a file
  return out;
}

class Lexer {
 public:
  Lexer(std::string text, const Source& source) : text_(std::move(text)), source_(source) {}

  std::vector<Token> run() {
    while (at_ < text_.size()) root();
    add(TokenType::End, "");
    return std::move(tokens_);
  }

 private:
  std::string_view rest() const { return std::string_view(text_).substr(at_); }
  bool here(std::string_view s) const { return rest().starts_with(s); }

  void add(TokenType type, std::string text) { tokens_.push_back({type, line_, std::move(text)}); }

  void advance(size_t bytes) {
    line_ += static_cast<int>(std::count(text_.begin() + static_cast<std::ptrdiff_t>(at_),
                                         text_.begin() + static_cast<std::ptrdiff_t>(at_ + bytes),
                                         '\n'));
    at_ += bytes;
    if (bytes > 0) line_starts_ = text_[at_ - 1] == '\n';
  }

  // Takes the text up to the next tag, and the tag.
  void root() {
    size_t tag = at_;
    while (true) {
      tag = text_.find('{', tag);
      if (tag == std::string::npos || tag + 1 == text_.size()) {
        tag = text_.size();
        break;
      }
      const char kind = text_[tag + 1];
      if (kind == '%' || kind == '{' || kind == '#') break;
      ++tag;
    }
    const char kind = tag < text_.size() ? text_[tag + 1] : ' ';
    data(tag, kind != ' ' ? sign_at(tag + 2) : '+', kind != '{');
    if (tag == text_.size()) return;
    const int line = line_;
    if (kind == '%' && raw()) return;
    advance(2);
    if (here("-") || here("+")) advance(1);
    if (kind == '#') return comment(line);
    tokens_.push_back({kind == '%' ? TokenType::BlockBegin : TokenType::VariableBegin, line, ""});
    kind == '%' ? inside("%}", TokenType::BlockEnd) : inside("}}", TokenType::VariableEnd);
  }

  char sign_at(size_t at) const {
    const char c = at < text_.size() ? text_[at] : ' ';
    return c == '-' || c == '+' ? c : ' ';
  }

  // Emits the text before a tag, without the whitespace that the tag removes.
  void data(size_t end, char sign, bool block) {
    std::string_view text = std::string_view(text_).substr(at_, end - at_);
    if (sign == '-') {
      text = strip_right(text);
    } else if (sign != '+' && block) {
      const size_t line = text.rfind('\n') + 1;  // 0 without one
      if ((line > 0 || line_starts_) && strip(text.substr(line)).empty()) {
        text = text.substr(0, line);
      }
    }
    if (!text.empty()) add(TokenType::Data, std::string(text));
    advance(end - at_);
  }

  void skip_spaces() { advance(rest().size() - strip_left(rest()).size()); }

  // Takes the end of a tag if it is here: "+%}", "-%}" with the spaces after it, or "%}" with a
  // newline.
  bool end_of_tag(std::string_view end, bool trims) {
    if (here("-") && rest().substr(1).starts_with(end)) {
      advance(1 + end.size());
      skip_spaces();
    } else if (trims && here("+") && rest().substr(1).starts_with(end)) {
      advance(1 + end.size());
    } else if (here(end)) {
      advance(end.size());
      if (trims && here("\n")) advance(1);
    } else {
      return false;
    }
    return true;
  }

  void comment(int line) {
    while (!end_of_tag("#}", true)) {
      if (rest().empty()) source_.refuse(line, "the comment has no end, expected '#}'");
      advance(1);
    }
  }

  // Takes {% raw %} to {% endraw %} if it begins here.
  bool raw() {
    const size_t begin = at_;
    const bool line_starts = line_starts_;
    const int line = line_;
    advance(2);
    if (here("-") || here("+")) advance(1);
    skip_spaces();
    bool found = here("raw");
    if (found) {
      advance(3);
      skip_spaces();
      found = end_of_tag("%}", false);
    }
    if (!found) {
      at_ = begin, line_ = line, line_starts_ = line_starts;
      return false;
    }
    const size_t text = at_;
    for (size_t tag = at_; (tag = text_.find("{%", tag)) != std::string::npos; ++tag) {
      std::string_view after = std::string_view(text_).substr(tag + 2);
      const char sign = sign_at(tag + 2);
      if (sign != ' ') after.remove_prefix(1);
      after = strip_left(after);
      if (!after.starts_with("endraw")) continue;
      after = strip_left(after.substr(6));
      if (!after.starts_with("%}") && !after.starts_with("-%}") && !after.starts_with("+%}")) {
        continue;
      }
      at_ = text;
      data(tag, sign, true);
      advance(static_cast<size_t>(after.data() - text_.data()) - at_);
      end_of_tag("%}", true);
      return true;
    }
    source_.refuse(line, "'raw' has no 'endraw'");
  }

  void inside(std::string_view end, TokenType end_type) {
    std::string open;  // the closing brackets of all open brackets
    const int begin = line_;
    while (true) {
      skip_spaces();
      if (at_ == text_.size()) {
        source_.refuse(begin, "the tag has no end, expected '", end, "'");
      }
      const int line = line_;
      if (open.empty() && end_of_tag(end, end_type == TokenType::BlockEnd)) {
        tokens_.push_back({end_type, line, ""});
        return;
      }
      const char c = text_[at_];
      if (is_digit(c)) {
        number();
      } else if (is_name_part(c)) {
        size_t size = 1;
        while (size < rest().size() && is_name_part(rest()[size])) ++size;
        take(TokenType::Name, size);
      } else if (c == '"' || c == '\'') {
        string(c);
      } else {
        operation(open);
      }
    }
  }

  void take(TokenType type, size_t size) {
    add(type, std::string(rest().substr(0, size)));
    advance(size);
  }

  // The end of digits from `at` on, with single underscores between them.
  template <class IsDigit>
  size_t digits(size_t at, IsDigit is) const {
    size_t end = at;
    while (end < text_.size()) {
      if (is(text_[end])) {
        ++end;
      } else if (text_[end] == '_' && end > at && end + 1 < text_.size() && is(text_[end + 1])) {
        end += 2;
      } else {
        break;
      }
    }
    return end;
  }

  void number() {
    const bool after_dot = at_ > 0 && text_[at_ - 1] == '.';
    if (!after_dot) {
      const size_t whole = digits(at_, is_digit);
      size_t end = whole;
      if (end < text_.size() && text_[end] == '.') {
        const size_t fraction = digits(end + 1, is_digit);
        if (fraction > end + 1) end = fraction;
      }
      if (end < text_.size() && (text_[end] == 'e' || text_[end] == 'E')) {
        size_t power = end + 1;
        if (power < text_.size() && (text_[power] == '+' || text_[power] == '-')) ++power;
        const size_t last = digits(power, is_digit);
        if (last > power) end = last;
      }
      if (end > whole) return take(TokenType::Float, end - at_);
    }
    if (text_[at_] == '0' && at_ + 2 < text_.size()) {
      const char base = static_cast<char>(text_[at_ + 1] | 0x20);
      const auto is = [base](char c) {
        const char low = static_cast<char>(c | 0x20);
        if (base == 'x') return is_digit(c) || (low >= 'a' && low <= 'f');
        return c >= '0' && c < (base == 'b' ? '2' : '8');
      };
      if (base == 'x' || base == 'b' || base == 'o') {
        const size_t first = at_ + (text_[at_ + 2] == '_' ? 3 : 2);
        const size_t end = digits(first, is);
        if (end > first) return take(TokenType::Integer, end - at_);
      }
    }
    // 007 is two numbers: a decimal number has no leading zero
    const bool zero = text_[at_] == '0';
    take(TokenType::Integer,
         digits(at_, [&](char c) { return zero ? c == '0' : is_digit(c); }) - at_);
  }

  void string(char quote) {
    const size_t begin = at_ + 1;
    size_t end = begin;
    while (end < text_.size() && text_[end] != quote) end += text_[end] == '\\' ? 2 : 1;
    if (end >= text_.size()) source_.refuse(line_, "the string has no end, expected ", quote);
    add(TokenType::String, unescape(std::string_view(text_).substr(begin, end - begin)));
    advance(end + 1 - at_);
  }

  // Interprets the inside of quotes as Python does.
  std::string unescape(std::string_view s) const {
    constexpr std::string_view kNames = "\\'\"abfnrtv";
    constexpr std::string_view kMeanings = "\\'\"\a\b\f\n\r\t\v";
    std::string out;
    for (size_t i = 0; i < s.size(); ++i) {
      if (s[i] != '\\') {
        out += s[i];
        continue;
      }
      // s[i + 1] exists: a backslash before the closing quote would have escaped the quote.
      const char kind = s[++i];
      if (const size_t known = kNames.find(kind); known != std::string_view::npos) {
        out += kMeanings[known];
      } else if (kind == 'x' || kind == 'u' || kind == 'U') {
        const size_t count = kind == 'x' ? 2 : kind == 'u' ? 4 : 8;
        append_code(out, s.substr(i + 1), count, 16);
        i += count;
      } else if (kind >= '0' && kind <= '7') {
        size_t count = 1;
        while (count < 3 && i + count < s.size() && s[i + count] >= '0' && s[i + count] <= '7') {
          ++count;
        }
        append_code(out, s.substr(i), count, 8);
        i += count - 1;
      } else if (kind == 'N') {
        source_.refuse(line_, "\\N{...} in a string is not supported; write the character");
      } else if (kind != '\n') {  // a backslash at the end of a line joins lines
        out += '\\';
        out += kind;
      }
    }
    return out;
  }

  void append_code(std::string& out, std::string_view digits, size_t count, int base) const {
    char32_t code = 0;
    for (size_t i = 0; i < count; ++i) {
      const char c = i < digits.size() ? digits[i] : ' ';
      const char low = static_cast<char>(c | 0x20);
      int value = -1;
      if (is_digit(c)) value = c - '0';
      if (low >= 'a' && low <= 'f') value = low - 'a' + 10;
      if (value < 0) {
        source_.refuse(line_, "an escape in a string is too short, expected ", count,
                       " hexadecimal digits");
      }
      code = code * static_cast<char32_t>(base) + static_cast<char32_t>(value);
    }
    if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) {
      source_.refuse(line_,
                     "an escape in a string stands for no character, expected at most 10FFFF",
                     " without D800 to DFFF");
    }
    append_character(out, code);
  }

  void operation(std::string& open) {
    constexpr std::array<std::string_view, 6> kLong = {"//", "**", "==", "!=", ">=", "<="};
    constexpr std::string_view kShort = "+-*/%~[](){}<>=.:|,;";
    for (std::string_view two : kLong) {
      if (here(two)) return take(TokenType::Operator, 2);
    }
    const char c = text_[at_];
    if (kShort.find(c) == std::string_view::npos) {
      source_.refuse(line_, "unexpected character '",
                     printable(split_characters(rest().substr(0, 8)).front()), "'");
    }
    if (c == '(') open += ')';
    if (c == '[') open += ']';
    if (c == '{') open += '}';
    if (c == ')' || c == ']' || c == '}') {
      if (open.empty()) source_.refuse(line_, "'", c, "' closes no bracket");
      if (open.back() != c) {
        source_.refuse(line_, "expected '", open.back(), "', found '", c, "'");
      }
      open.pop_back();
    }
    take(TokenType::Operator, 1);
  }

  std::string text_;
  const Source& source_;
  std::vector<Token> tokens_;
  size_t at_ = 0;
  int line_ = 1;
  bool line_starts_ = true;  // true: at the start of the text, or after a newline
};

}  // namespace

std::vector<Token> tokenize(std::string_view text, const Source& source) {
  return Lexer(with_newlines(text), source).run();
}

}  // namespace skald::jinja
