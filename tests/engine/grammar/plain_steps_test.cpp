#include "engine/grammar/plain_steps.h"

#include "engine/grammar/char_dfa.h"
#include "engine/grammar/regex.h"
#include "tests/catch.h"
#include "tests/engine/grammar/grammar_tools.h"

namespace skald::test {
namespace {

using grammar::CharClass;
using grammar::PlainChars;
using grammar::PlainSet;

// Up to four words, together of at most 40 characters, as JSON strings write them: some characters
// have an escape.
Rules words() {
  Rules rules;
  rules.root = rules.add("r");
  const auto dfa = grammar::CharDfa::of(
                       grammar::parse_regex("(\\S+\\s+){0,3}\\S+", "r", grammar::RegexMatch::Whole))
                       .value()
                       .with_length(0, 40)
                       .value();
  const grammar::RuleId escape = rules.add("escape");
  rules.define(escape, rules.choice({rules.text("\\n"), rules.text("\\\"")}));
  const auto write = [&](Rules& r, const CharClass& chars) {
    return r.choice({r.one_of(grammar::intersection(
                         chars, grammar::complement({{0, 0x1F}, {'"', '"'}, {'\\', '\\'}}))),
                     r.call(escape)});
  };
  rules.define(rules.root, dfa.add_to(rules, write));
  return rules;
}

bool has_char(const PlainSet& set, char c) {
  return set.has(PlainSet::group(static_cast<uint8_t>(c)));
}

TEST_CASE("what is known of a state's plain characters is what its bytes do") {
  const auto automaton = std::make_shared<Automaton>(words());
  grammar::Stacks stacks(automaton);
  grammar::SetId set = stacks.start();
  int known = 0;
  for (const char c : std::string("one t")) {
    set = stacks.step(set, static_cast<uint8_t>(c));
    for (const grammar::Item item :
         std::vector(stacks.items(set).begin(), stacks.items(set).end())) {
      if (item.state == grammar::kEnded) continue;
      grammar::State next = grammar::kNoState;
      const PlainChars* const chars = automaton->plain_chars(item.state, next);
      if (!chars) continue;
      ++known;
      const grammar::Item to{next, item.below};
      const grammar::SetId usual = stacks.make({&to, 1});
      for (int b = 0x20; b < 0x7F; ++b) {
        const auto byte = static_cast<char>(b);
        if (!grammar::is_plain(static_cast<char32_t>(b))) continue;
        const grammar::SetId after = stacks.step(set, static_cast<uint8_t>(b));
        CAPTURE(c, byte);
        CHECK(has_char(chars->usual, byte) == (after == usual));
        CHECK(has_char(chars->taken, byte) == (after != grammar::kDead));
      }
      // E2 begins letters and spaces, E4 letters alone.
      CHECK(!has_char(chars->usual, '\xE2'));
      CHECK(has_char(chars->usual, '\xE4'));
    }
  }
  CHECK(known == 5);
}

TEST_CASE("a mask of words makes few sets of states") {
  std::vector<std::string> tokens;
  for (const char* x : {"a", "z", " ", "\u00A0", "\u2003", "日"}) {
    for (const char* y : {"a", "-", " ", "é", "日", "aaaaaaaa", "aa aa aa aa"}) {
      for (const char* z : {"b", " ", "bbbbbbbbb", "\u2003b", "日b"}) {
        tokens.push_back(std::string(x) + y + z);
      }
    }
  }
  const auto vocabulary = byte_vocabulary(std::move(tokens));
  Matcher matcher(make_masks(words(), vocabulary));
  REQUIRE(matcher.accept("aa bb cc"));
  CHECK(wrong_bit(*vocabulary, matcher) == -1);
  const auto masks = make_masks(words(), vocabulary);
  Matcher again(masks);
  REQUIRE(again.accept("aa bb cc"));
  const size_t before = masks->stacks().sets();
  again.mask();
  CAPTURE(before);
  CHECK(masks->stacks().sets() - before < 100);
}

TEST_CASE("a class of many ranges has a state for each beginning of its characters") {
  const Automaton letters(grammar::regex_rules("\\p{L}", "r"));
  CHECK(letters.states() < 400);
  grammar::Stacks stacks(std::make_shared<Automaton>(grammar::regex_rules("\\p{L}", "r")));
  for (int lead = 0xC2; lead <= 0xF4; ++lead) {
    const grammar::SetId set = stacks.step(stacks.start(), static_cast<uint8_t>(lead));
    CHECK((set == grammar::kDead || stacks.items(set).size() == 1));
  }
}

}  // namespace
}  // namespace skald::test
