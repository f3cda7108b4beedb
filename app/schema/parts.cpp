#include "app/schema/parts.h"

#include <algorithm>

#include "engine/grammar/utf8_ranges.h"

namespace skald {

using grammar::CharClass;
using grammar::kUnbounded;
using grammar::NodeId;
using grammar::Rules;

namespace {

constexpr uint32_t kMostIndent = 20;

const CharClass& controls() {
  static const CharClass chars = {{0, 0x1F}};
  return chars;
}

// The characters that a JSON string may hold without an escape.
const CharClass& unescaped() {
  static const CharClass chars = grammar::complement({{0, 0x1F}, {'"', '"'}, {'\\', '\\'}});
  return chars;
}

// Those of ASCII, and all others.
const CharClass& unescaped_letters() {
  static const CharClass chars = grammar::intersection(unescaped(), {{0, 0x7F}});
  return chars;
}
const CharClass& wide() {
  static const CharClass chars = grammar::complement({{0, 0x7F}});
  return chars;
}

NodeId hex(Rules& rules, uint32_t digits) {
  return rules.repeat(rules.one_of({{'0', '9'}, {'A', 'F'}, {'a', 'f'}}), digits, digits);
}

// The shortest escape of a control character, quote or backslash.
NodeId escape(Rules& rules, char32_t c) {
  constexpr std::pair<char32_t, const char*> kShort[] = {
      {'"', "\\\""}, {'\\', "\\\\"}, {'\b', "\\b"}, {'\f', "\\f"},
      {'\n', "\\n"}, {'\r', "\\r"},  {'\t', "\\t"}};
  for (const auto& [value, text] : kShort) {
    if (value == c) return rules.text(text);
  }
  constexpr char kLower[] = "0123456789abcdef", kUpper[] = "0123456789ABCDEF";
  const size_t low = c & 15;
  NodeId digit = rules.text({kLower + low, 1});
  if (low >= 10) digit = rules.choice({digit, rules.text({kUpper + low, 1})});
  return rules.sequence({rules.text(c < 16 ? "\\u000" : "\\u001"), digit});
}

}  // namespace

JsonParts::JsonParts(Rules& rules) : rules_(rules) {
  space_ = rules.add("JSON's white space");
  rules.define(
      space_,
      rules.maybe(rules.choice(
          {rules.text(" "),
           rules.sequence({rules.text("\n"), rules.repeat(rules.one_of({{' ', ' '}, {'\t', '\t'}}),
                                                          0, kMostIndent)})})));
  define_string();
  define_numbers();
  any_ = rules.add("JSON's value");
  object_ = rules.add("JSON's object");
  array_ = rules.add("JSON's array");
  rules.define(object_, list("{", member(string(), any()), 0, kUnbounded, "}"));
  rules.define(array_, list("[", any(), 0, kUnbounded, "]"));
  rules.define(any_, rules.choice({any_object(), any_array(), string(), number(), boolean(),
                                   rules.text("null")}));
}

void JsonParts::define_string() {
  Rules& r = rules_;
  const auto u = [&](std::vector<NodeId> digits) {
    digits.insert(digits.begin(), r.text("u"));
    return r.sequence(digits);
  };
  const CharClass d = {{'D', 'D'}, {'d', 'd'}};
  // A surrogate is valid only in a pair.
  const NodeId single =
      u({r.one_of({{'0', '9'}, {'A', 'C'}, {'E', 'F'}, {'a', 'c'}, {'e', 'f'}}), hex(r, 3)});
  const NodeId single_d = u({r.one_of(d), r.one_of({{'0', '7'}}), hex(r, 2)});
  const NodeId pair =
      r.sequence({u({r.one_of(d), r.one_of({{'8', '9'}, {'A', 'B'}, {'a', 'b'}}), hex(r, 2)}),
                  r.text("\\"), u({r.one_of(d), r.one_of({{'C', 'F'}, {'c', 'f'}}), hex(r, 2)})});
  CharClass shorts;
  for (char c : std::string_view("\"\\/bfnrt")) {
    shorts.push_back({static_cast<char32_t>(c), static_cast<char32_t>(c)});
  }
  char_ = r.add("JSON's character");
  r.define(
      char_,
      r.choice({r.one_of(unescaped()),
                r.sequence({r.text("\\"), r.choice({r.one_of(shorts), single, single_d, pair})})}));
  string_ = r.add("JSON's string");
  r.define(string_, quoted(r.repeat(r.call(char_), 0, kUnbounded)));
}

void JsonParts::define_numbers() {
  Rules& r = rules_;
  const NodeId digit = r.one_of({{'0', '9'}});
  const NodeId whole =
      r.choice({r.text("0"), r.sequence({r.one_of({{'1', '9'}}), r.repeat(digit, 0, 19)})});
  const NodeId minus = r.maybe(r.text("-"));
  const auto zeros = grammar::add_regex(
      r, integer_zeros(), [](Rules& rules, const CharClass& chars) { return rules.one_of(chars); });
  plain_integer_ = r.add("JSON's integer without a point");
  r.define(plain_integer_, r.sequence({minus, whole}));
  integer_ = r.add("JSON's integer");
  r.define(integer_, r.sequence({r.call(plain_integer_), zeros}));
  number_from_0_ = r.add("JSON's number from 0");
  r.define(number_from_0_,
           r.sequence({whole, r.maybe(r.sequence({r.text("."), r.repeat(digit, 1, 20)})),
                       r.maybe(r.sequence({r.one_of({{'E', 'E'}, {'e', 'e'}}),
                                           r.maybe(r.one_of({{'+', '+'}, {'-', '-'}})),
                                           r.repeat(digit, 1, 2)}))}));
  number_ = r.add("JSON's number");
  r.define(number_, r.sequence({minus, r.call(number_from_0_)}));
}

NodeId JsonParts::quoted(NodeId content) {
  return rules_.sequence({rules_.text("\""), content, rules_.text("\"")});
}

NodeId JsonParts::member(NodeId key, NodeId value) {
  return rules_.sequence({key, rules_.text(":"), rules_.maybe(rules_.text(" ")), value});
}

NodeId JsonParts::comma() { return rules_.sequence({rules_.text(","), space()}); }

NodeId JsonParts::list(std::string_view open, NodeId item, uint32_t least, uint32_t most,
                       std::string_view close) {
  std::vector<NodeId> parts{rules_.text(open), space()};
  if (most > 0) {
    const NodeId more = rules_.repeat(rules_.sequence({comma(), item}), least > 0 ? least - 1 : 0,
                                      most == kUnbounded ? most : most - 1);
    const NodeId items = rules_.sequence({item, more, space()});
    parts.push_back(least > 0 ? items : rules_.maybe(items));
  }
  parts.push_back(rules_.text(close));
  return rules_.sequence(parts);
}

NodeId JsonParts::string_of_length(uint32_t least, uint32_t most) {
  if (least == 0 && most == kUnbounded) return string();
  return quoted(rules_.repeat(rules_.call(char_), least, most));
}

NodeId JsonParts::string_by(const grammar::Regex& regex) {
  return quoted(grammar::add_regex(
      rules_, regex, [this](Rules&, const CharClass& chars) { return plain_chars(chars); }));
}

NodeId JsonParts::string_by(const grammar::CharDfa& dfa) {
  return quoted(
      dfa.add_to(rules_, [this](Rules&, const CharClass& chars) { return plain_chars(chars); }));
}

NodeId JsonParts::plain_chars(const CharClass& chars) {
  std::vector<std::pair<char32_t, char32_t>> key;
  for (const grammar::CharRange& r : chars) key.emplace_back(r.first, r.last);
  const auto [known, fresh] = plain_chars_.try_emplace(std::move(key));
  if (fresh) known->second = make_plain_chars(chars);
  return known->second;
}

NodeId JsonParts::make_plain_chars(const CharClass& chars) {
  if (chars == grammar::any_char()) return rules_.call(char_);
  std::vector<NodeId> parts;
  const CharClass as_is = grammar::intersection(chars, unescaped());
  if (!as_is.empty()) parts.push_back(rules_.one_of(as_is));
  for (char32_t c = 0; c <= controls().back().last; ++c) {
    if (grammar::contains(chars, c)) parts.push_back(escape(rules_, c));
  }
  for (char32_t c : {U'"', U'\\'}) {
    if (grammar::contains(chars, c)) parts.push_back(escape(rules_, c));
  }
  const NodeId choice = rules_.choice(parts);
  if (rules_.node(choice).kind != grammar::Node::Kind::Choice) return choice;
  const RuleId rule = rules_.add("characters of a pattern");
  rules_.define(rule, choice);
  return rules_.call(rule);
}

NodeId JsonParts::string_except(std::vector<std::string> texts) {
  std::sort(texts.begin(), texts.end());
  texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
  return quoted(except(texts));
}

// A trie of the texts, and a state for strings that differ from all of them. Escapes are allowed
// only there: an escape could spell one of the texts.
NodeId JsonParts::except(const std::vector<std::string>& texts) {
  struct Open {
    uint32_t state;
    size_t begin, end, at;  // texts[begin, end) share their first `at` bytes, which lead to `state`
  };
  constexpr uint32_t kDiffers = 1;
  grammar::Graph graph;
  graph.ends = {true, true};
  std::vector<NodeId> parts{rules_.call(char_), rules_.one_of(wide())};
  graph.links.push_back({kDiffers, kDiffers, 0});
  std::map<std::string_view, uint32_t> letters;
  std::map<std::string, uint32_t> free_letters;  // by the letters that are not free
  const auto part_of = [&](auto& known, const auto& key, const auto& make) {
    const auto [found, fresh] = known.try_emplace(key, static_cast<uint32_t>(parts.size()));
    if (fresh) parts.push_back(make());
    return found->second;
  };
  std::vector<Open> unvisited{{0, 0, texts.size(), 0}};
  while (!unvisited.empty()) {
    Open open = unvisited.back();
    unvisited.pop_back();
    if (open.begin < open.end && texts[open.begin].size() == open.at) {
      graph.ends[open.state] = false;
      ++open.begin;
    }
    CharClass taken, taken_wide;
    std::string taken_letters;
    while (open.begin < open.end) {
      size_t next = open.at;
      char32_t c = 0;
      const std::string& text = texts[open.begin];
      if (!grammar::decode_utf8(text, next, c)) next = open.at + 1;  // output is always UTF-8
      const std::string_view letter(text.data() + open.at, next - open.at);
      size_t same = open.begin;
      while (same < open.end &&
             std::string_view(texts[same]).substr(open.at, letter.size()) == letter)
        ++same;
      (c < 0x80 ? taken : taken_wide).push_back({c, c});
      if (c < 0x80) taken_letters += static_cast<char>(c);
      if (grammar::contains(unescaped(), c)) {
        const auto state = static_cast<uint32_t>(graph.ends.size());
        graph.ends.push_back(true);
        graph.links.push_back(
            {open.state, state, part_of(letters, letter, [&] { return rules_.text(letter); })});
        unvisited.push_back({state, open.begin, same, next});
      }
      open.begin = same;
    }
    const auto without = [&](const CharClass& chars, const CharClass& some) {
      return rules_.one_of(grammar::intersection(chars, grammar::complement(some)));
    };
    graph.links.push_back({open.state, kDiffers, part_of(free_letters, taken_letters, [&] {
                             return without(unescaped_letters(), taken);
                           })});
    uint32_t others = 1;
    if (!taken_wide.empty()) {
      others = static_cast<uint32_t>(parts.size());
      parts.push_back(without(wide(), taken_wide));
    }
    graph.links.push_back({open.state, kDiffers, others});
  }
  graph.open.assign(graph.ends.size(), kUnbounded);
  return rules_.graph(parts, std::move(graph));
}

}  // namespace skald
