// Several proposers together, with a clock of the test's own.
#include "engine/speculate/guesser.h"

#include <algorithm>
#include <string>

#include "engine/speculate/ngram.h"
#include "tests/catch.h"

namespace skald::test {
namespace {

// Guesses its own number. A guess takes a given time.
class Numbered final : public Proposer {
 public:
  Numbered(int32_t number, double& now, double seconds)
      : number_(number), now_(now), seconds_(seconds) {}

  int offered = 99;  // at most
  int catches = 0;   // calls of catch_up() that are not enough
  int made = 0;

  int kinds() const override { return 2; }
  Offer offer(const GuessedText&, int most) override { return {1, std::min(most, offered)}; }
  bool catch_up(const GuessedText&) override {
    now_ += 50;  // does not count as the time of a guess
    return catches-- <= 0;
  }
  std::vector<int32_t> guess(const GuessedText&, int count) override {
    now_ += seconds_ * count;
    made += count;
    return std::vector<int32_t>(static_cast<size_t>(count), number_);
  }

 private:
  int32_t number_;
  double& now_;
  double seconds_;
};

struct Both {
  double now = 0;
  Numbered *first, *second;
  SamplingParams params;
  std::vector<int32_t> tokens = {1, 2, 3};
  std::unique_ptr<Guesser> guesser;

  Both(double first_seconds, double second_seconds) {
    Proposers proposers;
    auto a = std::make_unique<Numbered>(1, now, first_seconds);
    auto b = std::make_unique<Numbered>(2, now, second_seconds);
    first = a.get(), second = b.get();
    proposers.push_back(std::move(a));
    proposers.push_back(std::move(b));
    guesser = std::make_unique<Guesser>(std::move(proposers), 4, [this] { return now; });
    guesser->step_ended(1);
    for (int i = 0; i < 4; ++i) step(1);  // so that the time of a plain step is believed
  }

  GuessedText text() { return {tokens, &params}; }
  void step(int rows) {
    now += 1;
    guesser->step_ended(rows);
  }
  // A step in which guesses of the first proposer are right as they are said to be.
  int32_t next(bool first_right, bool second_right) {
    const std::span<const int32_t> guesses = guesser->guess(text(), 100);
    if (guesses.empty()) {
      if (!guesser->may_follow(text())) step(1);
      return 0;
    }
    const int32_t number = guesses.front();
    const bool right = number == 1 ? first_right : second_right;
    const int rows = static_cast<int>(guesses.size()) + 1;
    guesser->checked(right ? rows - 1 : 0);
    step(rows);
    return number;
  }
};

TEST_CASE("the gain is that over steps without guesses, with the time of the proposers") {
  double now = 0;
  std::vector<int32_t> tokens(20, 7);
  const SamplingParams params;
  Guesser guesser(std::make_unique<NgramProposer>(), 4, [&] { return now; });
  CHECK(guesser.counts().gain == 0);
  guesser.step_ended(1);
  for (int i = 0; i < 100; ++i) {
    const size_t guesses = guesser.guess({tokens, &params}, 100).size();
    if (guesses > 0) guesser.checked(static_cast<int>(guesses));
    now += 1;
    guesser.step_ended(static_cast<int>(guesses) + 1);
    tokens.resize(tokens.size() + guesses + 1, 7);
  }
  CHECK(guesser.counts().gain > 4.5);
  CHECK(guesser.counts().gain <= 5);
  Both slow(0.1, 0.1);  // taking in the text takes as long as 50 steps
  for (int i = 0; i < 10; ++i) slow.next(true, true);
  CHECK(slow.guesser->counts().gain < 0.5);
}

TEST_CASE("of several proposers, the one whose guesses pay most is asked") {
  Both right(0.1, 0.1), quick(0.1, 0.01), one(0.1, 0.1);
  int by[3] = {};
  for (int i = 0; i < 200; ++i) ++by[right.next(false, true)];
  CHECK(by[2] > 150);  // the first is wrong
  int quick_by[3] = {};
  for (int i = 0; i < 200; ++i) ++quick_by[quick.next(true, true)];
  CHECK(quick_by[2] > 150);  // both are right, and the second one is quicker
  one.first->offered = 0;
  CHECK(one.next(true, true) == 2);
  CHECK(one.first->made == 0);  // only what is checked is made
}

TEST_CASE("guesses fit the room, and there are none before there is a time to compare with") {
  Both both(0, 0);
  CHECK(both.guesser->guess(both.text(), 2).size() == 2);
  CHECK(both.guesser->guess(both.text(), 0).empty());
  CHECK(both.guesser->guess(both.text(), -1).empty());
  double now = 0;
  Guesser fresh(std::make_unique<Numbered>(1, now, 0), 4, [&now] { return now; });
  CHECK(fresh.guess(both.text(), 10).empty());
}

TEST_CASE("a proposer that has to catch up gives no guess yet, and the time does not count") {
  Both both(0.01, 9);
  both.second->offered = 0;
  both.first->catches = 3;
  for (int i = 0; i < 3; ++i) CHECK(both.guesser->guess(both.text(), 10).empty());
  for (int i = 0; i < 100; ++i) CHECK(both.next(true, true) == 1);
  CHECK(both.first->made == 400);  // 50 seconds for each guess would not pay
}

TEST_CASE("after some failures nothing is guessed") {
  Both both(0, 0);
  for (int i = 0; i < 3; ++i) {
    CHECK(!both.guesser->guess(both.text(), 10).empty());
    CHECK(both.guesser->ended_by().empty());
    both.guesser->failed("reason " + std::to_string(i));
  }
  CHECK(both.guesser->ended_by() == "reason 2");
  CHECK(both.guesser->guess(both.text(), 10).empty());
  CHECK_FALSE(both.guesser->may_follow(both.text()));
}

}  // namespace
}  // namespace skald::test
