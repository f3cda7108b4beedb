#include "engine/grammar/matcher.h"

#include "engine/grammar/gbnf.h"
#include "engine/grammar/regex.h"
#include "tests/catch.h"
#include "tests/engine/grammar/grammar_tools.h"
#include "tests/engine/grammar/random_grammar.h"
#include "tests/error_text.h"

namespace skald::test {
namespace {

using grammar::parse_gbnf;
using grammar::regex_rules;

const char* const kLetters[] = {"a", "b", "é", "日"};

// All texts of up to `length` of the letters.
std::vector<std::string> all_texts(int length) {
  std::vector<std::string> texts{""};
  size_t begin = 0;
  for (int i = 0; i < length; ++i) {
    const size_t end = texts.size();
    for (size_t t = begin; t < end; ++t) {
      for (const char* letter : kLetters) texts.push_back(texts[t] + letter);
    }
    begin = end;
  }
  return texts;
}

TEST_CASE("random grammars take the texts that a slow reader takes, and no others") {
  const std::vector<std::string> texts = all_texts(4);
  size_t taken = 0, refused = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    const RandomGrammar grammar(seed, 1 + seed % 4);
    for (const std::string& text : texts) {
      CAPTURE(seed, text);
      const Reading fast = read(grammar.rules(), text);
      const bool slow = SlowReader(grammar.rules(), text).whole();
      if (fast.whole != slow) REQUIRE(fast.whole == slow);
      ++(slow ? taken : refused);
    }
  }
  CHECK(taken > 3000);
  CHECK(refused > 3000);
}

}  // namespace
}  // namespace skald::test
