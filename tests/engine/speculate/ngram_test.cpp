#include "engine/speculate/ngram.h"

#include <algorithm>

#include "engine/base/rng.h"
#include "tests/catch.h"

namespace skald::test {
namespace {

using Tokens = std::vector<int32_t>;

struct Guesses {
  Tokens tokens;
  int kind = 0;
};

Guesses guesses_of(NgramProposer& proposer, const Tokens& tokens, int most) {
  const SamplingParams params;
  const GuessedText text{tokens, &params};
  const Offer offer = proposer.offer(text, most);
  return {offer.count > 0 ? proposer.guess(text, offer.count) : Tokens(), offer.kind};
}

TEST_CASE("what followed the last tokens before is guessed") {
  NgramProposer proposer, fresh;
  const Tokens text = {5, 6, 7, 8, 9, 10, 1, 2, 5, 6};
  const Guesses two = guesses_of(proposer, text, 4);
  CHECK(two.tokens == Tokens{7, 8, 9, 10});
  CHECK(two.kind == 2);
  CHECK(guesses_of(proposer, text, 0).tokens.empty());
  CHECK(guesses_of(fresh, {}, 4).tokens.empty());
  CHECK(guesses_of(fresh, Tokens{5}, 4).tokens.empty());
  CHECK(guesses_of(fresh, Tokens{1, 2, 3, 4}, 4).tokens.empty());
}

TEST_CASE("the longest match is taken, and of equal ones the last") {
  NgramProposer proposer;
  // 3 4 stands three times; 1 2 3 4 once before the end.
  const Tokens text = {1, 2, 3, 4, 50, 9, 3, 4, 60, 9, 3, 4, 70, 8, 1, 2, 3, 4};
  const Guesses four = guesses_of(proposer, text, 1);
  CHECK(four.tokens == Tokens{50});
  CHECK(four.kind == 1);
  Tokens other = text;
  other.back() = 99;
  other.insert(other.end(), {3, 4});
  CHECK(guesses_of(proposer, other, 1).tokens == Tokens{70});
}

TEST_CASE("a text that repeats itself goes on so") {
  NgramProposer proposer;
  const Tokens text = {1, 2, 3, 1, 2, 3, 1, 2};
  CHECK(guesses_of(proposer, text, 7).tokens == Tokens{3, 1, 2, 3, 1, 2, 3});
}

TEST_CASE("tokens that were taken back are not guessed from") {
  NgramProposer proposer;
  Tokens text = {1, 2, 3, 4, 5, 6, 1, 2};
  CHECK(guesses_of(proposer, text, 2).tokens == Tokens{3, 4});
  text.resize(3);
  text.insert(text.end(), {7, 8, 1, 2});
  CHECK(guesses_of(proposer, text, 2).tokens == Tokens{3, 7});
  // Other tokens stand where the match was.
  text = {9, 9, 9, 4, 5, 1, 2};
  CHECK(guesses_of(proposer, text, 2).tokens.empty());
}

TEST_CASE("guesses of a random text are those of a search through it") {
  NgramProposer proposer;
  Tokens text;
  int found = 0;
  for (int64_t i = 0; i < 400; ++i) {
    text.push_back(static_cast<int32_t>(uniform(4, 0, i) * 4));
    const Guesses proposal = guesses_of(proposer, text, 3);
    Tokens expected;
    for (const size_t length : {size_t{6}, size_t{4}, size_t{2}}) {
      for (size_t end = text.size() - 1; end >= length && expected.empty(); --end) {
        if (text.size() <= length) break;
        if (!std::equal(text.end() - static_cast<std::ptrdiff_t>(length), text.end(),
                        text.begin() + static_cast<std::ptrdiff_t>(end - length))) {
          continue;
        }
        for (size_t at = end; expected.size() < 3; ++at) {
          expected.push_back(at < text.size() ? text[at] : expected[at - text.size()]);
        }
      }
      if (!expected.empty()) break;
    }
    CHECK(proposal.tokens == expected);
    found += !expected.empty();
  }
  CHECK(found > 200);
}

}  // namespace
}  // namespace skald::test
