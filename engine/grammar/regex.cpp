#include "engine/grammar/regex.h"

#include <algorithm>

#include "engine/grammar/char_dfa.h"
#include "engine/grammar/front_end.h"
#include "engine/grammar/regex_anchors.h"

namespace skald::grammar {
namespace make {

Regex one_of(CharClass chars) {
  return {.kind = Regex::Kind::Class, .chars = normalized(std::move(chars))};
}

Regex sequence(std::vector<Regex> parts) {
  if (parts.size() == 1) return std::move(parts[0]);
  return {.kind = Regex::Kind::Sequence, .parts = std::move(parts)};
}

Regex choice(std::vector<Regex> parts) {
  if (parts.size() == 1) return std::move(parts[0]);
  return {.kind = Regex::Kind::Choice, .parts = std::move(parts)};
}

Regex repeat(Regex part, uint32_t least, uint32_t most) {
  Regex result{.kind = Regex::Kind::Repeat, .least = least, .most = most};
  result.parts.push_back(std::move(part));
  return result;
}

}  // namespace make

namespace {

using make::choice;
using make::one_of;
using make::repeat;
using make::sequence;

const CharClass kDigits = {{'0', '9'}};
const CharClass kWord = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
const CharClass kSpace = {{'\t', '\r'},     {' ', ' '},       {0xA0, 0xA0},     {0x1680, 0x1680},
                          {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F},
                          {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
const CharClass kLineBreaks = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};

Regex one_of(char32_t c) { return make::one_of(CharClass{{c, c}}); }

constexpr size_t kMostLooks = 50;

class RegexParser {
 public:
  RegexParser(std::string_view text, const std::string& source, RegexMatch match,
              UnicodeProperties& properties)
      : cursor_(text, source), match_(match), properties_(properties) {}

  Regex parse() {
    Regex result = parse_choice(0);
    if (!cursor_.done()) cursor_.fail_here("unmatched )");
    check_looks(result);
    return whole_text(result, match_);
  }

 private:
  static bool has_look(const Regex& regex) {
    return regex.kind == Regex::Kind::Look ||
           std::any_of(regex.parts.begin(), regex.parts.end(), has_look);
  }

  // A lookahead must stand in an alternative itself, not in a group that is repeated or has
  // alternatives of its own.
  void check_looks(const Regex& regex) const {
    if (looks_ == 0) return;
    if (looks_ > kMostLooks) {
      cursor_.fail_at(look_, concat("more than ", kMostLooks, " lookaheads"));
    }
    const auto check_part = [&](const Regex& part) {
      if (part.kind == Regex::Kind::Look) {
        check_looks(part.parts[0]);
      } else if (has_look(part)) {
        cursor_.fail_at(look_, "lookahead is supported only at the top level of an alternative");
      }
    };
    const auto check_alternative = [&](const Regex& alternative) {
      if (alternative.kind == Regex::Kind::Sequence) {
        std::for_each(alternative.parts.begin(), alternative.parts.end(), check_part);
      } else {
        check_part(alternative);
      }
    };
    if (regex.kind == Regex::Kind::Choice) {
      std::for_each(regex.parts.begin(), regex.parts.end(), check_alternative);
    } else {
      check_alternative(regex);
    }
  }

  Regex parse_choice(int groups) {
    std::vector<Regex> choices{parse_sequence(groups)};
    while (cursor_.take("|")) choices.push_back(parse_sequence(groups));
    return choice(std::move(choices));
  }

  bool ends_choice() const {
    return cursor_.done() || cursor_.peek() == '|' || cursor_.peek() == ')';
  }

  Regex parse_sequence(int groups) {
    std::vector<Regex> parts;
    while (!ends_choice()) {
      Regex part = parse_repeats(parse_part(groups));
      // A group that is not repeated joins its surroundings, so that its lookahead is understood.
      if (part.kind == Regex::Kind::Sequence) {
        std::move(part.parts.begin(), part.parts.end(), std::back_inserter(parts));
      } else {
        parts.push_back(std::move(part));
      }
    }
    return sequence(std::move(parts));
  }

  Regex parse_repeats(Regex part) {
    uint32_t least = 0, most = kUnbounded;
    if (cursor_.take("+")) {
      least = 1;
    } else if (cursor_.take("?")) {
      most = 1;
    } else if (!cursor_.take("*") && !take_counts(cursor_, Spaces::AreText, least, most)) {
      return part;
    }
    if (cursor_.peek() == '+') {
      cursor_.fail_here("possessive repetitions are not supported");
    }
    cursor_.take("?");
    if (cursor_.peek() == '*' || cursor_.peek() == '+' || cursor_.peek() == '?') {
      cursor_.fail_here("a repetition of a repetition; put the inner one in (?: )");
    }
    return repeat(std::move(part), least, most);
  }

  Regex parse_part(int groups) {
    const size_t begin = cursor_.at();
    switch (cursor_.peek()) {
      case '(':
        return parse_group(groups);
      case '[':
        return parse_class();
      case '.':
        cursor_.skip(1);
        return one_of(complement(kLineBreaks));
      case '\\':
        cursor_.skip(1);
        return one_of(parse_escape(false));
      case '*':
      case '+':
      case '?':
        cursor_.fail_here("nothing before it to repeat");
      case '^':
      case '$':
        cursor_.skip(1);
        return {.kind = cursor_.between(begin, begin + 1) == "^" ? Regex::Kind::Begin
                                                                 : Regex::Kind::End};
      default:
        return one_of(cursor_.character());
    }
  }

  Regex parse_group(int groups) {
    const size_t begin = cursor_.at();
    cursor_.skip(1);
    if (groups >= kMostGroups) {
      cursor_.fail_at(begin, concat("more than ", kMostGroups, " nested groups"));
    }
    if (cursor_.starts("?=") || cursor_.starts("?!")) {
      const bool seen = cursor_.starts("?=");
      cursor_.skip(2);
      look_ = begin;
      ++looks_;
      Regex look{.kind = Regex::Kind::Look, .least = seen};
      look.parts.push_back(whole_text(parse_choice(groups + 1), RegexMatch::Begin));
      if (!cursor_.take(")")) cursor_.fail_at(begin, "this ( is never closed");
      return look;
    }
    if (cursor_.take("?") && !cursor_.take(":")) {
      cursor_.take("P");
      const char next = cursor_.peek(1);
      if (cursor_.peek() != '<' || next == '=' || next == '!') {
        cursor_.fail_at(begin,
                        "lookbehind, flags and conditions are not supported; only (x), "
                        "(?:x), (?<name>x), (?=x) and (?!x)");
      }
      while (!cursor_.take(">")) {
        if (cursor_.done()) cursor_.fail_at(begin, "this ( is never closed");
        cursor_.character();
      }
    }
    Regex inner = parse_choice(groups + 1);
    if (!cursor_.take(")")) cursor_.fail_at(begin, "this ( is never closed");
    return inner;
  }

  Regex parse_class() {
    const size_t begin = cursor_.at();
    cursor_.skip(1);
    const bool negated = cursor_.take("^");
    CharClass chars;
    while (!cursor_.take("]")) {
      if (cursor_.done()) cursor_.fail_at(begin, "this [ is never closed");
      if (cursor_.starts("[:")) {
        cursor_.fail_here("classes by name, as in [:alpha:], are not supported");
      }
      const size_t at = cursor_.at();
      CharClass first = class_item();
      const bool range = cursor_.peek() == '-' && cursor_.peek(1) != ']' && cursor_.peek(1) != '\0';
      if (range) {
        cursor_.skip(1);
        const CharClass last = class_item();
        const auto single = [](const CharClass& c) {
          return c.size() == 1 && c[0].first == c[0].last;
        };
        if (!single(first) || !single(last)) {
          cursor_.fail_at(at, "a range must go from one character to one character");
        }
        if (last[0].first < first[0].first) {
          cursor_.fail_at(at, "the range ends before it begins");
        }
        first = {{first[0].first, last[0].first}};
      }
      chars.insert(chars.end(), first.begin(), first.end());
    }
    chars = negated ? complement(chars) : normalized(std::move(chars));
    if (chars.empty()) {
      cursor_.fail_at(begin, "this class contains no character; ] in a class is written \\]");
    }
    return one_of(std::move(chars));
  }

  CharClass class_item() {
    if (cursor_.take("\\")) return parse_escape(true);
    const char32_t c = cursor_.character();
    return {{c, c}};
  }

  CharClass parse_escape(bool in_class) {
    const size_t begin = cursor_.at() - 1;
    const char c = cursor_.peek();
    const auto one = [](char32_t value) { return CharClass{{value, value}}; };
    if (cursor_.done()) cursor_.fail_at(begin, "nothing follows the backslash");
    if (static_cast<unsigned char>(c) >= 0x80) return one(cursor_.character());
    cursor_.skip(1);
    switch (c) {
      case 'd':
        return kDigits;
      case 'w':
        return kWord;
      case 's':
        return kSpace;
      case 'D':
        return complement(kDigits);
      case 'W':
        return complement(kWord);
      case 'S':
        return complement(kSpace);
      case 'n':
        return one('\n');
      case 'r':
        return one('\r');
      case 't':
        return one('\t');
      case 'f':
        return one('\f');
      case 'v':
        return one('\v');
      case '0':
        return one('\0');
      case 'c': {  // a control character by its letter: \cJ is a line feed
        const char letter = cursor_.peek();
        const bool ascii = (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z');
        if (!ascii) cursor_.fail_at(begin, "expected a letter after \\c");
        cursor_.skip(1);
        return one(static_cast<char32_t>(letter % 32));
      }
      case 'x':
      case 'u':
        return one(parse_code(c == 'x' ? 2 : 4));
      case 'b':
        if (in_class) return one('\b');
        [[fallthrough]];
      case 'B':
        cursor_.fail_at(begin, "word borders are not supported");
      case 'p':
      case 'P':
        return parse_property(begin, c == 'P');
      default:
        break;
    }
    if (c >= '1' && c <= '9') cursor_.fail_at(begin, "references to groups are not supported");
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) {
      cursor_.fail_at(begin, "unknown escape: this letter has no meaning after a backslash");
    }
    return one(static_cast<unsigned char>(c));
  }

  CharClass parse_property(size_t begin, bool negated) {
    if (!cursor_.take("{")) {
      cursor_.fail_at(begin, "expected a property in braces, as in \\p{L} or \\p{Script=Greek}");
    }
    const size_t from = cursor_.at();
    while (cursor_.peek() != '}') {
      if (cursor_.done()) cursor_.fail_at(begin, "this { is never closed");
      cursor_.character();
    }
    const std::string_view name = cursor_.between(from, cursor_.at());
    cursor_.skip(1);
    const CharClass* chars = properties_.find(name);
    if (!chars) {
      cursor_.fail_at(begin, concat("there is no Unicode property '", printable(name, 60),
                                    "'; expected a general category (L, Lu), Script=Greek or the "
                                    "like, or a property as Alphabetic"));
    }
    return negated ? complement(*chars) : *chars;
  }

  char32_t parse_code(int digits) {
    if (!cursor_.take("{")) return cursor_.hex(digits);
    int count = 0;
    while (count < 8 && cursor_.peek(static_cast<size_t>(count)) != '}') ++count;
    const char32_t code = cursor_.hex(count);
    if (count == 0 || !cursor_.take("}")) cursor_.fail_here("expected {, hexadecimal digits and }");
    return code;
  }

  Cursor cursor_;
  RegexMatch match_;
  UnicodeProperties& properties_;
  size_t look_ = 0;   // place of the last lookahead
  size_t looks_ = 0;  // each restricts all that follows, by an automaton of its own
};

uint64_t add(uint64_t a, uint64_t b) { return a > UINT64_MAX - b ? UINT64_MAX : a + b; }
uint64_t multiply(uint64_t a, uint64_t b) {
  return a == 0 || b == 0 ? 0 : a > UINT64_MAX / b ? UINT64_MAX : a * b;
}
uint64_t count_of(uint32_t n) { return n == kUnbounded ? UINT64_MAX : n; }
uint32_t to_count(uint64_t n) { return static_cast<uint32_t>(std::min<uint64_t>(n, kUnbounded)); }

// The only part of variable length takes the characters that the other parts do not take.
std::optional<Regex> sequence_with_length(const Regex& regex, uint64_t least, uint64_t most) {
  uint64_t fixed = 0;
  size_t open = regex.parts.size();
  for (size_t i = 0; i < regex.parts.size(); ++i) {
    const RegexLength length = length_of(regex.parts[i]);
    if (length.least == length.most) {
      fixed = add(fixed, length.least);
    } else if (open < regex.parts.size()) {
      return std::nullopt;
    } else {
      open = i;
    }
  }
  if (fixed > most) return choice({});
  if (open == regex.parts.size()) return fixed >= least ? regex : choice({});
  auto part = with_length(regex.parts[open], least > fixed ? least - fixed : 0,
                          most == UINT64_MAX ? most : most - fixed);
  if (!part) return std::nullopt;
  Regex result = regex;
  result.parts[open] = std::move(*part);
  return result;
}

}  // namespace

Regex parse_regex(std::string_view text, const std::string& source, RegexMatch match,
                  UnicodeProperties& properties) {
  return RegexParser(text, source, match, properties).parse();
}

Regex parse_regex(std::string_view text, const std::string& source, RegexMatch match) {
  UnicodeProperties properties;
  return parse_regex(text, source, match, properties);
}

RegexLength length_of(const Regex& regex) {
  switch (regex.kind) {
    case Regex::Kind::Class:
      return {1, 1};
    case Regex::Kind::Sequence: {
      RegexLength sum{0, 0};
      for (const Regex& part : regex.parts) {
        const RegexLength length = length_of(part);
        sum = {add(sum.least, length.least), add(sum.most, length.most)};
      }
      return sum;
    }
    case Regex::Kind::Choice: {
      RegexLength all{UINT64_MAX, 0};
      for (const Regex& part : regex.parts) {
        const RegexLength length = length_of(part);
        all = {std::min(all.least, length.least), std::max(all.most, length.most)};
      }
      return all;
    }
    case Regex::Kind::Repeat: {
      const RegexLength length = length_of(regex.parts[0]);
      return {multiply(length.least, regex.least), multiply(length.most, count_of(regex.most))};
    }
    case Regex::Kind::Look:
    case Regex::Kind::Begin:
    case Regex::Kind::End:
      break;
  }
  return {0, 0};
}

std::optional<Regex> with_length(const Regex& regex, uint64_t least, uint64_t most) {
  const RegexLength length = length_of(regex);
  if (length.least >= least && length.most <= most) return regex;
  if (length.least > most || length.most < least) return choice({});
  switch (regex.kind) {
    case Regex::Kind::Class:
      return regex;
    case Regex::Kind::Sequence:
      return sequence_with_length(regex, least, most);
    case Regex::Kind::Choice: {
      std::vector<Regex> parts;
      for (const Regex& part : regex.parts) {
        auto limited = with_length(part, least, most);
        if (!limited) return std::nullopt;
        parts.push_back(std::move(*limited));
      }
      return choice(std::move(parts));
    }
    case Regex::Kind::Repeat: {
      const RegexLength one = length_of(regex.parts[0]);
      if (one.least != one.most || one.least == 0) return std::nullopt;
      const uint64_t from = std::max<uint64_t>(regex.least, (least + one.least - 1) / one.least);
      const uint64_t to = std::min(count_of(regex.most), most / one.least);
      if (from > to) return choice({});
      return repeat(regex.parts[0], to_count(from), to_count(to));
    }
    case Regex::Kind::Look:
    case Regex::Kind::Begin:
    case Regex::Kind::End:
      break;
  }
  return std::nullopt;
}

NodeId add_regex(Rules& rules, const Regex& regex, const WriteChars& write) {
  if (regex.kind == Regex::Kind::Class) return write(rules, regex.chars);
  check(regex.kind != Regex::Kind::Look && regex.kind != Regex::Kind::Begin &&
            regex.kind != Regex::Kind::End,
        "an expression without lookahead and anchors");
  std::vector<NodeId> parts;
  parts.reserve(regex.parts.size());
  for (const Regex& part : regex.parts) parts.push_back(add_regex(rules, part, write));
  if (regex.kind == Regex::Kind::Sequence) return rules.sequence(parts);
  if (regex.kind == Regex::Kind::Choice) return rules.choice(parts);
  return rules.repeat(parts[0], regex.least, regex.most);
}

Rules regex_rules(std::string_view text, const std::string& source) {
  Rules rules;
  rules.root = rules.add(source);
  const Regex regex = parse_regex(text, source, RegexMatch::Whole);
  const WriteChars write = [](Rules& r, const CharClass& chars) { return r.one_of(chars); };
  if (needs_automaton(regex)) {
    const auto dfa = CharDfa::of(regex);
    if (!dfa) {
      fail(Exit::Usage, source,
           ": lookahead, or a ^ or $ in the middle, is too complex here; simplify the expression");
    }
    rules.define(rules.root, dfa->add_to(rules, write));
  } else {
    rules.define(rules.root, add_regex(rules, regex, write));
  }
  return rules;
}

}  // namespace skald::grammar
