#include "engine/grammar/gbnf.h"

#include <map>

#include "engine/grammar/front_end.h"

namespace skald::grammar {
namespace {

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_';
}

class GbnfParser {
 public:
  GbnfParser(std::string_view text, const std::string& source)
      : cursor_(text, source), source_(source) {}

  Rules parse() {
    for (skip_space(true); !cursor_.done(); skip_space(true)) parse_rule();
    for (const auto& [name, rule] : rules_) {
      if (!grammar_.is_defined(rule.id)) {
        cursor_.fail_at(rule.first_use, "there is no rule '" + printable(name, 60) + "'");
      }
    }
    const auto root = rules_.find("root");
    if (root == rules_.end()) {
      fail(Exit::Usage, source_, ": there is no rule 'root'; add one, it describes the whole text");
    }
    grammar_.root = root->second.id;
    return std::move(grammar_);
  }

 private:
  struct Rule {
    RuleId id;
    size_t first_use;
  };

  void skip_space(bool newlines) {
    for (;;) {
      const char c = cursor_.peek();
      if (cursor_.done()) return;
      if (c == '#') {
        while (!cursor_.done() && cursor_.peek() != '\n' && cursor_.peek() != '\r') cursor_.skip(1);
      } else if (c == ' ' || c == '\t' || (newlines && (c == '\n' || c == '\r'))) {
        cursor_.skip(1);
      } else {
        return;
      }
    }
  }

  std::string parse_name() {
    const size_t begin = cursor_.at();
    while (is_name_char(cursor_.peek())) cursor_.skip(1);
    if (cursor_.at() == begin) {
      cursor_.fail_here("expected the name of a rule: letters, digits, - and _");
    }
    return std::string(cursor_.between(begin, cursor_.at()));
  }

  // A rule is named in messages by its definition. Until the definition is parsed, only the name is
  // known.
  RuleId rule_named(const std::string& name, size_t at) {
    const auto [found, is_new] = rules_.try_emplace(name);
    if (is_new) found->second = {grammar_.add(concat(source_, ": rule '", name, "'")), at};
    return found->second.id;
  }

  void parse_rule() {
    const size_t begin = cursor_.at();
    const std::string name = parse_name();
    const RuleId rule = rule_named(name, begin);
    if (grammar_.is_defined(rule)) {
      cursor_.fail_at(begin, "the rule '" + printable(name, 60) + "' is defined twice");
    }
    skip_space(false);
    if (!cursor_.take("::=")) cursor_.fail_here("expected ::= after the name of a rule");
    grammar_.rename(rule, concat(source_, ": ", cursor_.place(begin), ": rule '", name, "'"));
    skip_space(true);
    const NodeId body = parse_choice(0);
    if (!cursor_.done() && cursor_.peek() != '\n' && cursor_.peek() != '\r') {
      cursor_.fail_here(cursor_.peek() == ')' ? "unmatched )"
                                              : "expected the end of the line, | or a string");
    }
    grammar_.define(rule, body);
  }

  NodeId parse_choice(int groups) {
    std::vector<NodeId> choices{parse_sequence(groups)};
    for (;;) {
      skip_space(groups > 0);
      if (groups == 0) skip_to_bar();
      if (!cursor_.take("|")) break;
      skip_space(true);
      choices.push_back(parse_sequence(groups));
    }
    return grammar_.choice(choices);
  }

  // Skips to the next line if that line begins with |.
  void skip_to_bar() {
    const size_t here = cursor_.at();
    skip_space(true);
    if (cursor_.peek() != '|') cursor_.go_to(here);
  }

  NodeId parse_sequence(int groups) {
    std::vector<NodeId> parts;
    for (skip_space(groups > 0); starts_part(); skip_space(groups > 0)) {
      parts.push_back(parse_repeats(parse_part(groups), groups));
    }
    return parts.empty() ? grammar_.empty() : grammar_.sequence(parts);
  }

  bool starts_part() const {
    const char c = cursor_.peek();
    if (cursor_.done() || c == '\n' || c == '\r' || c == '|' || c == ')') return false;
    return true;
  }

  NodeId parse_part(int groups) {
    const size_t begin = cursor_.at();
    if (cursor_.take("\"")) return parse_text(begin);
    if (cursor_.take("[")) return parse_class(begin);
    if (cursor_.take(".")) return grammar_.one_of(any_char());
    if (cursor_.take("(")) {
      if (groups >= kMostGroups) {
        cursor_.fail_at(begin, concat("more than ", kMostGroups, " nested brackets"));
      }
      const NodeId inner = parse_choice(groups + 1);
      if (!cursor_.take(")")) cursor_.fail_at(begin, "this ( is never closed");
      return inner;
    }
    if (is_name_char(cursor_.peek())) {
      const std::string name = parse_name();
      return grammar_.call(rule_named(name, begin));
    }
    const char c = cursor_.peek();
    if (c == '*' || c == '+' || c == '?' || c == '{') {
      cursor_.fail_here("nothing before it to repeat");
    }
    if (c == '<' || c == '!') return parse_token();
    cursor_.fail_here("expected a string in quotes, a class in [], a rule or a (");
  }

  NodeId parse_token() {
    const size_t begin = cursor_.at();
    TokenReference token;
    token.others = cursor_.take("!");
    const size_t name = cursor_.at();
    if (!cursor_.take("<"))
      cursor_.fail_here("expected a token such as <think> or <[1000]> after !");
    if (cursor_.take("[")) {
      token.id = static_cast<int32_t>(cursor_.number(INT32_MAX));
      if (!cursor_.take("]>")) cursor_.fail_at(begin, "expected ]> after the token's number");
      return grammar_.token(std::move(token));
    }
    while (!cursor_.take(">")) {
      if (cursor_.done() || cursor_.peek() == '\n')
        cursor_.fail_at(begin, "this < is never closed");
      cursor_.character();
    }
    token.name = cursor_.between(name, cursor_.at());
    return grammar_.token(std::move(token));
  }

  // Spaces may stand before *, +, ? and {}.
  NodeId parse_repeats(NodeId part, int groups) {
    for (;;) {
      skip_space(groups > 0);
      uint32_t least = 0, most = kUnbounded;
      if (cursor_.take("+")) {
        least = 1;
      } else if (cursor_.take("?")) {
        most = 1;
      } else if (!cursor_.take("*") && !take_counts(cursor_, Spaces::Allowed, least, most)) {
        if (cursor_.peek() == '{') cursor_.fail_here("expected {2}, {2,} or {2,5}");
        return part;
      }
      part = grammar_.repeat(part, least, most);
    }
  }

  NodeId parse_text(size_t begin) {
    std::string text;
    while (!cursor_.take("\"")) {
      if (cursor_.done()) cursor_.fail_at(begin, "this \" is never closed");
      append_utf8(parse_character(), text);
    }
    return grammar_.text(text);
  }

  NodeId parse_class(size_t begin) {
    const bool negated = cursor_.take("^");
    CharClass chars;
    while (!cursor_.take("]")) {
      if (cursor_.done()) cursor_.fail_at(begin, "this [ is never closed");
      const size_t at = cursor_.at();
      const char32_t first = parse_character();
      char32_t last = first;
      if (cursor_.peek() == '-' && cursor_.peek(1) != ']') {
        cursor_.skip(1);
        if (cursor_.done()) cursor_.fail_at(begin, "this [ is never closed");
        last = parse_character();
      }
      if (last < first) cursor_.fail_at(at, "the range ends before it begins");
      chars.push_back({first, last});
    }
    chars = negated ? complement(chars) : normalized(std::move(chars));
    if (chars.empty()) cursor_.fail_at(begin, "this class contains no character");
    return grammar_.one_of(std::move(chars));
  }

  char32_t parse_character() {
    if (!cursor_.take("\\")) return cursor_.character();
    const char c = cursor_.peek();
    cursor_.skip(1);
    switch (c) {
      case 'n':
        return '\n';
      case 'r':
        return '\r';
      case 't':
        return '\t';
      case 'x':
        return cursor_.hex(2);
      case 'u':
        return cursor_.hex(4);
      case 'U':
        return cursor_.hex(8);
      case '\\':
      case '"':
      case '[':
      case ']':
      case '-':
      case '^':
        return static_cast<unsigned char>(c);
      default:
        cursor_.fail_at(cursor_.at() - 2,
                        "unknown escape; expected \\n \\r \\t \\\\ \\\" \\[ \\] \\xHH \\uHHHH");
    }
  }

  Cursor cursor_;
  std::string source_;
  Rules grammar_;
  std::map<std::string, Rule> rules_;
};

}  // namespace

Rules parse_gbnf(std::string_view text, const std::string& source) {
  return GbnfParser(text, source).parse();
}

}  // namespace skald::grammar
