#include "engine/speculate/ngram.h"

#include <algorithm>
#include <chrono>
#include <cstdio>

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

// A file's tokens, so that each few of them stand somewhere.
std::shared_ptr<const NgramText> file_of(Tokens tokens) {
  return std::make_shared<NgramText>(std::move(tokens));
}

TEST_CASE("what followed the last tokens in a file is guessed, up to the file's end") {
  NgramProposer proposer(file_of({1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 9}));
  CHECK(proposer.kinds() == 6);
  const Guesses four = guesses_of(proposer, {2, 3, 4, 5}, 2);
  CHECK(four.tokens == Tokens{6, 7});
  CHECK(four.kind == 4);
  CHECK(guesses_of(proposer, {50, 1, 2}, 7).tokens == Tokens{9});  // the last place, and its end
  CHECK(guesses_of(proposer, {2, 9}, 7).tokens.empty());           // nothing follows
  CHECK(guesses_of(proposer, {7, 8}, 0).tokens.empty());
  CHECK(guesses_of(proposer, {8, 7}, 7).tokens.empty());
  NgramProposer none(file_of({}));
  CHECK(guesses_of(none, {1, 2, 1, 2}, 1).tokens == Tokens{1});
}

TEST_CASE("a text's own repetition goes before that of a file, and more tokens before fewer") {
  NgramProposer proposer(file_of({9, 1, 2, 50, 8, 7, 1, 2, 60}));
  const Guesses own = guesses_of(proposer, {1, 2, 40, 1, 2}, 1);
  CHECK(own.tokens == Tokens{40});
  CHECK(own.kind == 2);
  const Guesses longer = guesses_of(proposer, {1, 2, 40, 8, 7, 1, 2}, 1);
  CHECK(longer.tokens == Tokens{60});
  CHECK(longer.kind == 4);
}

TEST_CASE("places in a file are those of a search through it") {
  Tokens tokens;
  for (int64_t i = 0; i < 2000; ++i) tokens.push_back(static_cast<int32_t>(uniform(9, 0, i) * 5));
  const NgramText file(tokens);
  for (int64_t i = 0; i < 300; ++i) {
    Tokens last;
    for (int64_t j = 0; j < 6; ++j) last.push_back(static_cast<int32_t>(uniform(9, i, j) * 5));
    for (size_t length = 0; length < kNgramLengths.size(); ++length) {
      const auto count = static_cast<std::ptrdiff_t>(kNgramLengths[length]);
      size_t expected = 0;
      for (size_t end = kNgramLengths[length]; end < tokens.size(); ++end) {
        const auto to = tokens.begin() + static_cast<std::ptrdiff_t>(end);
        if (std::equal(to - count, to, last.end() - count)) expected = end;
      }
      CHECK(file.find(length, last) == expected);
    }
  }
}

TEST_CASE("how long a guess from a file of 100,000 tokens takes", "[.][speed]") {
  Tokens tokens;
  for (int64_t i = 0; i < 100000; ++i)
    tokens.push_back(static_cast<int32_t>(uniform(9, 0, i) * 200));
  const auto file = file_of(tokens);
  NgramProposer proposer(file);
  Tokens text;
  const auto begin = std::chrono::steady_clock::now();
  size_t guessed = 0;
  for (int64_t i = 0; i < 20000; ++i) {
    text.push_back(tokens[static_cast<size_t>(i * 3 + i % 2)]);
    guessed += guesses_of(proposer, text, 7).tokens.size();
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  std::printf("%.2f us a token, %zu guesses\n", took.count() / 20000 * 1e6, guessed);
}

}  // namespace
}  // namespace skald::test
