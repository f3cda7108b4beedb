// Filters of a scheduler's samples: which tokens they allow, and which they force.
#include "engine/base/error.h"
#include "tests/engine/schedule/scheduler_batch.h"

namespace skald::test {
namespace {

// Allows a single token, the next number each time. Fails after `most`.
class Counting final : public TokenFilter {
 public:
  explicit Counting(int32_t most) : most_(most) {}
  std::span<const uint64_t> allowed() override {
    if (next_ > most_) fail(Exit::Failed, "nothing is allowed");
    bits_ = uint64_t{1} << next_;
    return {&bits_, 1};
  }
  void accept(int32_t token) override { next_ = token + 1; }
  bool finished() const override { return next_ == 20; }

 private:
  int32_t next_ = 1, most_;
  uint64_t bits_ = 0;
};

// After each token below 30, forces three tokens.
class Forcing final : public TokenFilter {
 public:
  std::span<const uint64_t> allowed() override {
    bits_ = queue_.empty() ? ~uint64_t{0} : uint64_t{1} << queue_.front();
    return {&bits_, 1};
  }
  void accept(int32_t token) override {
    if (!queue_.empty()) {
      CHECK(token == queue_.front());
      queue_.erase(queue_.begin());
    } else if (token < 30) {
      queue_ = {40 + token % 5, 50, 51};
    }
  }
  bool finished() const override { return false; }
  std::span<const int32_t> forced() override { return queue_; }

 private:
  Tokens queue_;
  uint64_t bits_ = 0;
};

TEST_CASE(
    "forced tokens are computed together, and the tokens are those of a model that is asked for "
    "each") {
  const std::vector<Request> requests = {
      {{5, 6}, 40}, {{7}, 41}, {{8, 9, 10}, 42}, {random_tokens(300, 1, kVocab), 400}};
  Results expected;
  int64_t steps = 0;
  for (const bool scores : {true, false}) {
    CAPTURE(scores);
    const auto executor = limited_executor({});
    Scheduler scheduler(*executor, {.sequences = 3});
    Batch batch(requests);
    for (Generation& generation : batch.all) {
      generation.score_forced = scores;
      generation.filters.push_back(std::make_unique<Forcing>());
    }
    const Results& results = batch.run(scheduler);
    if (scores) {
      expected = results;
      steps = scheduler.counts().steps;
      continue;
    }
    for (const auto& [key, result] : results) {
      CHECK(result.tokens == expected.at(key).tokens);
      CHECK(result.ending == expected.at(key).ending);
    }
    CHECK(scheduler.counts().steps < steps * 2 / 3);
  }
  CHECK(expected.at({0, 0}).tokens.size() == 40);
  CHECK(expected.at({3, 0}).ending == Ending::Context);
}

TEST_CASE("a filter affects its own sequence alone") {
  const auto executor = limited_executor({});
  Scheduler scheduler(*executor, {.sequences = 4});
  Batch batch({{{5, 6}, 8}, {{5, 6}, 8}, {{5, 6}, 8}, {{5, 6}, 50}});
  batch.all[0].filters.push_back(std::make_unique<Counting>(30));
  batch.all[1].filters.push_back(std::make_unique<Counting>(4));
  batch.all[3].filters.push_back(std::make_unique<Counting>(30));
  const Results& results = batch.run(scheduler);
  CHECK(results.at({0, 0}).tokens == Tokens{1, 2, 3, 4, 5, 6, 7, 8});
  CHECK(results.at({1, 0}).tokens == Tokens{1, 2, 3, 4});
  CHECK(results.at({1, 0}).problem == "nothing is allowed");
  CHECK(results.at({2, 0}).tokens == alone({{5, 6}, 8}, 2));
  CHECK(results.at({3, 0}).tokens.size() == 19);
  CHECK(results.at({3, 0}).ending == Ending::Stop);
}

}  // namespace
}  // namespace skald::test
