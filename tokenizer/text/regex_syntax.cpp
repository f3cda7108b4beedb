#include <array>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "tokenizer/text/ascii.h"
#include "tokenizer/text/regex.h"
#include "tokenizer/text/utf8.h"

// Translates Oniguruma's syntax, as far as tokenizers use it, to PCRE2's. Known differences: \s, \w
// and \b (other characters), && in classes (PCRE2 has none), \h and \v (other meanings), {n,m}+
// (not possessive), nested classes, script names (without extensions), \u, and ^ $ (always at line
// boundaries).
namespace skald {
namespace {

// Unicode's White_Space. PCRE2's \s also contains U+180E.
constexpr std::string_view kSpaces =
    R"(\t-\r\x20\x85\xa0\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
constexpr std::string_view kWordParts = R"(\p{L}\p{M}\p{Nd}\p{Pc})";
constexpr std::array<std::pair<std::string_view, std::string_view>, 8> kLongNames = {
    {{"Letter", "L"},
     {"Mark", "M"},
     {"Number", "N"},
     {"Punctuation", "P"},
     {"Symbol", "S"},
     {"Separator", "Z"},
     {"Other", "C"},
     {"Decimal_Number", "Nd"}}};

constexpr int kMostIntersections = 8;

bool is_letter(char c) { return (c | 0x20) >= 'a' && (c | 0x20) <= 'z'; }

class Translation {
 public:
  // depth: how many classes with && are around the pattern.
  Translation(std::string_view pattern, const std::string& source, int depth = 0)
      : pattern_(pattern), source_(source), depth_(depth) {}

  std::string run() {
    while (!at_end()) {
      const char c = peek();
      if (c == '\\') {
        escape();
      } else if (in_class_) {
        class_character(c);
      } else if (c == '[') {
        begin_class();
      } else if (c == '(') {
        begin_group();
      } else if (c == '{') {
        repeat();
      } else {
        copy(1);
      }
    }
    if (in_class_) refuse("[");
    return std::move(out_);
  }

 private:
  bool at_end() const { return at_ == pattern_.size(); }
  char peek(size_t ahead = 0) const {
    return at_ + ahead < pattern_.size() ? pattern_[at_ + ahead] : '\0';
  }
  std::string_view rest() const { return pattern_.substr(at_); }
  void copy(size_t count) {
    out_ += pattern_.substr(at_, count);
    at_ += count;
  }

  [[noreturn]] void refuse(std::string_view construct) const {
    fail(Exit::Model, source_, ": the pattern '", printable(pattern_, 100), "' has '",
         printable(construct, 20), "', which skald does not support");
  }

  void replace(size_t count, std::string_view by) {
    out_ += by;
    at_ += count;
  }

  // Writes a character class, inside or outside of brackets.
  void put_class(std::string_view parts, bool negated) {
    if (!in_class_) return replace(2, concat(negated ? "[^" : "[", parts, "]"));
    if (negated) refuse(concat("\\", peek(1), "] in a class"));
    replace(2, parts);
  }

  // A word's beginning or end, or, negated, any other place.
  void put_word_border(bool negated) {
    if (in_class_) refuse(concat("\\", peek(1), "] in a class"));
    const std::string before = concat("(?<=[", kWordParts, "])");
    const std::string not_before = concat("(?<![", kWordParts, "])");
    const std::string after = concat("(?=[", kWordParts, "])");
    const std::string not_after = concat("(?![", kWordParts, "])");
    replace(2, concat("(?:", before, negated ? after : not_after, "|", not_before,
                      negated ? not_after : after, ")"));
  }

  void escape() {
    const char c = peek(1);
    switch (c) {
      case 'b':
      case 'B':
        return put_word_border(c == 'B');
      case 's':
      case 'S':
        return put_class(kSpaces, c == 'S');
      case 'w':
      case 'W':
        return put_class(kWordParts, c == 'W');
      case 'd':
        return replace(2, "\\p{Nd}");
      case 'D':
        return replace(2, "\\P{Nd}");
      case 'p':
      case 'P':
        return property();
      case 'u':
        return code_point(4);
      case 'x':
        return code_point(2);
      case 'v':
        return replace(2, "\\x0b");
      case 'r':
      case 'n':
      case 't':
      case 'f':
      case 'a':
      case 'e':
        return copy(2);
      case 'A':
      case 'z':
      case 'Z':
        if (in_class_) break;
        return copy(2);
      default:
        break;
    }
    if (at_ + 1 >= pattern_.size() || is_letter(c) || is_digit(c)) {
      refuse(rest().substr(0, 2));
    }
    if (static_cast<uint8_t>(c) >= 0x80) {
      ++at_;
      return copy(utf8_length(rest()));
    }
    copy(2);
  }

  void property() {
    const size_t close = rest().find('}');
    if (peek(2) != '{' || close == std::string_view::npos) refuse(rest().substr(0, 3));
    std::string_view name = rest().substr(3, close - 3);
    bool negated = peek(1) == 'P';
    if (name.starts_with('^')) {
      negated = !negated;
      name.remove_prefix(1);
    }
    for (const char c : name) {
      if (!is_letter(c) && c != '_') refuse(rest().substr(0, close + 1));
    }
    std::string known = name.size() <= 2 ? std::string(name) : concat("sc:", name);
    for (const auto& [is_long, is_short] : kLongNames) {
      if (name == is_long) known = is_short;
    }
    replace(close + 1, concat(negated ? "\\P{" : "\\p{", known, "}"));
  }

  // Handles \uHHHH, \xHH and \x{H...}.
  void code_point(size_t digits) {
    std::string_view number = rest().substr(2);
    size_t length = 2;
    if (digits == 2 && peek(2) == '{') {
      number = number.substr(1, number.find('}') - 1);
      length += number.size() + 2;
    } else {
      number = number.substr(0, digits);
      length += digits;
      if (number.size() != digits) refuse(rest());
      // \xHH from 80 on means a byte, which may be a part of a character.
      if (digits == 2 && number[0] >= '8') refuse(rest().substr(0, length));
    }
    if (number.empty() || number.size() > 6) refuse(rest().substr(0, length));
    for (const char c : number) {
      if (!is_hex(c)) refuse(rest().substr(0, length));
    }
    replace(length, concat("\\x{", number, "}"));
  }

  void begin_class() {
    const size_t length = peek(1) == '^' ? 2 : 1;
    if (peek(length) == ']') refuse(rest().substr(0, length + 1));
    if (const Intersection both = intersection(length); both.end > 0) {
      if (length == 2) refuse("&& in a negated class");
      const std::string_view left = rest().substr(length, both.ampersands - length);
      const std::string_view right =
          rest().substr(both.ampersands + 2, both.end - both.ampersands - 2);
      const bool is_class = right.starts_with('[') && right.ends_with(']');
      return replace(both.end + 1,
                     concat("(?:(?=", translated(is_class ? right : concat("[", right, "]")), ")",
                            translated(concat("[", left, "]")), ")"));
    }
    copy(length);
    in_class_ = true;
  }

  // The position of the first && of a class outside inner classes, and the end of the class. end is
  // 0 if the class has no &&.
  struct Intersection {
    size_t ampersands = 0, end = 0;
  };
  Intersection intersection(size_t from) const {
    Intersection found;
    size_t depth = 0;
    for (size_t i = from; peek(i) != '\0'; ++i) {
      if (peek(i) == '\\') {
        ++i;
      } else if (peek(i) == '[') {
        ++depth;
      } else if (peek(i) == ']') {
        if (depth == 0) return found.ampersands > 0 ? Intersection{found.ampersands, i} : found;
        --depth;
      } else if (depth == 0 && found.ampersands == 0 && peek(i) == '&' && peek(i + 1) == '&') {
        found.ampersands = i;
      }
    }
    return {};
  }

  std::string translated(std::string_view part) const {
    if (part == "[]" || part == "[^]") refuse("&& with nothing beside it");
    if (depth_ == kMostIntersections) refuse("&& in && in && ...");
    return Translation(part, source_, depth_ + 1).run();
  }

  void class_character(char c) {
    if (c == '[') refuse("[ in a class");
    if (c == '&' && peek(1) == '&') refuse("&&");
    in_class_ = c != ']';
    copy(1);
  }

  void begin_group() {
    if (peek(1) == '*') refuse("(*");
    if (peek(1) != '?') return copy(1);
    for (const std::string_view known : {"(?:", "(?i:", "(?=", "(?!", "(?>", "(?<=", "(?<!"}) {
      if (rest().starts_with(known)) return copy(known.size());
    }
    refuse(rest().substr(0, 4));
  }

  // Handles {n}, {n,} and {n,m}. A following + repeats the whole in Oniguruma, but is possessive in
  // PCRE2, so it is refused.
  void repeat() {
    size_t length = 1;
    while (is_digit(peek(length))) ++length;
    const bool has_number = length > 1;
    const bool has_comma = peek(length) == ',';
    if (has_comma) ++length;
    while (is_digit(peek(length))) ++length;
    if (!has_number || peek(length) != '}') refuse(rest().substr(0, length + 1));
    ++length;
    const char next = peek(length);
    if (next == '+' || (next == '?' && !has_comma)) refuse(rest().substr(0, length + 1));
    copy(length);
  }

  std::string_view pattern_;
  const std::string& source_;
  int depth_;
  std::string out_;
  size_t at_ = 0;
  bool in_class_ = false;
};

}  // namespace

std::string to_pcre2(std::string_view oniguruma, const std::string& source) {
  if (!utf8_valid(oniguruma)) fail(Exit::Model, source, ": a pattern is not UTF-8");
  return Translation(oniguruma, source).run();
}

}  // namespace skald
