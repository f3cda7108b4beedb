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

// Counts the first states that some text tells apart, by a table of all pairs.
size_t different_states(const std::vector<CharDfa::State>& states, const std::string& letters) {
  const size_t count = states.size();
  const auto next = [&](size_t state, char letter) {  // `count`: none
    for (const CharDfa::Arc& arc : states[state].arcs) {
      const auto c = static_cast<char32_t>(letter);
      if (arc.first <= c && c <= arc.last) return size_t{arc.to};
    }
    return count;
  };
  std::vector<std::vector<bool>> apart(count + 1, std::vector<bool>(count + 1));
  const auto ends = [&](size_t state) { return state < count && states[state].ends; };
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t a = 0; a <= count; ++a) {
      for (size_t b = 0; b < a; ++b) {
        if (apart[a][b]) continue;
        bool found = ends(a) != ends(b);
        for (const char letter : letters) {
          const size_t x = a < count ? next(a, letter) : count, y = next(b, letter);
          found |= x != y && apart[std::max(x, y)][std::min(x, y)];
        }
        apart[a][b] = found;
        changed |= found;
      }
    }
  }
  size_t different = 0;
  for (size_t a = 0; a < count; ++a) {
    const auto row = apart[a].begin();
    different += std::all_of(row, row + static_cast<ptrdiff_t>(a), [](bool x) { return x; });
  }
  return different;
}

TEST_CASE("an automaton made of any states keeps its texts and has no two states that are alike") {
  const std::string letters = "abc";
  for (uint64_t seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    std::vector<CharDfa::State> states(1 + below(random, 14));
    for (CharDfa::State& state : states) {
      state.ends = below(random, 4) == 0;
      for (const char letter : letters) {
        const auto c = static_cast<char32_t>(letter);
        const auto to = static_cast<uint32_t>(below(random, states.size()));
        if (below(random, 4) > 0) state.arcs.push_back({c, c, to});
      }
    }
    const CharDfa dfa = CharDfa::of_states(states).value();
    REQUIRE(different_states(dfa.states(), letters) == dfa.states().size());
    for (int i = 0; i < 200; ++i) {
      std::string text;
      for (size_t n = below(random, 12); n > 0; --n) text += letters[below(random, letters.size())];
      size_t at = 0;
      for (const char letter : text) {
        size_t to = states.size();
        for (const CharDfa::Arc& arc :
             at < states.size() ? states[at].arcs : std::vector<CharDfa::Arc>()) {
          if (arc.first == static_cast<char32_t>(letter)) to = arc.to;
        }
        at = to;
      }
      REQUIRE(dfa.matches(text) == (at < states.size() && states[at].ends));
    }
  }
  // A long chain of loops, which is minimal, and so is what remains of two of them.
  CHECK(dfa_of("(a+b+){0,99}a+").states().size() == 200);
  CHECK(dfa_of("(a+b+){0,99}a+|(a+b+){0,40}a+").states().size() == 200);
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
