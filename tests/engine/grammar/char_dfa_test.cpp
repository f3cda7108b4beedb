#include "engine/grammar/char_dfa.h"

#include "tests/catch.h"
#include "tests/engine/grammar/grammar_tools.h"

namespace skald::test {
namespace {

using grammar::CharDfa;
using grammar::RegexMatch;

CharDfa dfa_of(const char* expression) {
  return CharDfa::of(grammar::parse_regex(expression, "r", RegexMatch::Whole)).value();
}

std::vector<std::string> texts_up_to(size_t length) {
  std::vector<std::string> texts{""};
  for (size_t begin = 0; length > 0; --length) {
    const size_t end = texts.size();
    for (size_t i = begin; i < end; ++i) {
      for (const char* letter : {"a", "b", "é", "\""}) texts.push_back(texts[i] + letter);
    }
    begin = end;
  }
  return texts;
}

TEST_CASE("automata of texts are combined, inverted and limited as the texts are") {
  const char* const expressions[] = {"a*b*",    "(a|é)*\"?", "[^a]*a",  "(ab|b)+",
                                     "a{2,3}.", "",          "(?!ab).*"};
  const std::vector<std::string> texts = texts_up_to(5);
  for (const char* one : expressions) {
    const CharDfa a = dfa_of(one), outside = a.without().value(), back = outside.without().value(),
                  limited = a.with_length(2, 3).value();
    for (const char* other : expressions) {
      const CharDfa b = dfa_of(other), both = a.with(b).value();
      for (const std::string& text : texts) {
        if (both.matches(text) != (a.matches(text) && b.matches(text))) {
          CAPTURE(one, other, text);
          REQUIRE(false);
        }
      }
    }
    for (const std::string& text : texts) {
      CAPTURE(one, text);
      const auto length = std::count_if(text.begin(), text.end(), [](char c) {
        return (static_cast<uint8_t>(c) & 0xC0) != 0x80;
      });
      if (outside.matches(text) == a.matches(text)) REQUIRE(false);
      if (back.matches(text) != a.matches(text)) REQUIRE(false);
      if (limited.matches(text) != (a.matches(text) && length >= 2 && length <= 3)) REQUIRE(false);
    }
  }
  CHECK(dfa_of("a*").with(dfa_of("b+"))->empty());
  CHECK(CharDfa::any().without()->empty());
  CHECK(!dfa_of("(a|b)*a(a|b){3}").with_length(100'000, 200'000));  // too large
}

TEST_CASE("a list of texts becomes an automaton that shares what they share") {
  std::vector<std::string> texts;
  texts.reserve(50'000);
  for (int i = 0; i < 50'000; ++i) texts.push_back("name " + std::to_string(i * 7919) + "é");
  const CharDfa dfa = CharDfa::of_texts(texts);
  CHECK(dfa.states().size() < 60'000);
  CHECK(dfa.matches("name 7919é"));
  CHECK(!dfa.matches("name 7918é"));
  grammar::Rules rules;
  rules.root = rules.add("texts");
  rules.define(rules.root,
               dfa.add_to(rules, [](Rules& r, const auto& chars) { return r.one_of(chars); }));
  CHECK(read(rules, texts[49'999]).whole);
  CHECK(!read(rules, texts[49'999] + "x").alive);
}

TEST_CASE("masks of grammars with graphs agree with trying each token") {
  const auto vocabulary = byte_vocabulary({"ab", "ba", "aab", "\"a", "éb", "bbbb"});
  for (const char* expression : {"(?!ab)[ab\"é]{3,9}", "(a|b)*(?=bb)b+a", "(?!.*aa)(a|b|é)+"}) {
    const auto masks = make_masks(grammar::regex_rules(expression, "r"), vocabulary);
    for (uint64_t seed = 0; seed < 10; ++seed) {
      Random random(seed);
      Matcher matcher(masks);
      for (int step = 0; step < 12 && !matcher.finished(); ++step) {
        CAPTURE(expression, seed, step);
        REQUIRE(wrong_bit(*vocabulary, matcher) == -1);
        std::vector<int32_t> allowed;
        for (int32_t id = 0; static_cast<size_t>(id) < vocabulary->size(); ++id) {
          if (has_bit(matcher.mask(), id) && !vocabulary->is_end(id)) allowed.push_back(id);
        }
        if (allowed.empty()) break;
        matcher.accept(allowed[below(random, allowed.size())]);
      }
    }
  }
}

}  // namespace
}  // namespace skald::test
