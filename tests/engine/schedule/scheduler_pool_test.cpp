// Generations that give a vector of their prompt: Generation::pooling.
#include <limits>

#include "engine/schedule/step_pools.h"
#include "tests/engine/schedule/scheduler_batch.h"

namespace skald::test {
namespace {

// The vector as the plain kernels make it: all rows of the prompt in one step.
std::vector<float> expected_vector(const Tokens& prompt, Pooling pooling) {
  const auto executor = limited_executor({.rows = 400, .sequences = 1});
  Sequence sequence = executor->new_sequence();
  const SeqRows rows{&sequence, prompt, Want::EveryRow};
  const int64_t count = executor->run({&rows, 1});
  std::vector<double> sum(executor->hidden(0).size());
  const int64_t first = pooling == Pooling::Last ? count - 1 : 0;
  const int64_t last = pooling == Pooling::First ? 0 : count - 1;
  for (int64_t row = first; row <= last; ++row) {
    const auto hidden = executor->hidden(row);
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += hidden[i];
  }
  std::vector<float> vector;
  vector.reserve(sum.size());
  for (const double one : sum) {
    vector.push_back(static_cast<float>(one / static_cast<double>(last - first + 1)));
  }
  return vector;
}

Request pooled(Tokens prompt, Pooling pooling) {
  return {.prompt = std::move(prompt), .max_tokens = 0, .pooling = pooling};
}

// Prompts of many lengths that share beginnings, with vectors of each kind, among texts that grow.
std::vector<Request> mixed_requests() {
  std::vector<Request> requests;
  const Tokens start = random_tokens(150, 1, kVocab);
  for (const auto& [shared, length] : {std::pair(150, 40), std::pair(0, 1), std::pair(130, 7),
                                       std::pair(64, 0), std::pair(150, 0), std::pair(70, 100)}) {
    Tokens prompt(start.begin(), start.begin() + shared);
    for (int32_t id : random_tokens(length, static_cast<uint64_t>(length) + 9, kVocab)) {
      prompt.push_back(id);
    }
    for (const Pooling pooling : {Pooling::Mean, Pooling::Last, Pooling::First}) {
      requests.push_back(pooled(prompt, pooling));
    }
    requests.push_back({.prompt = prompt, .max_tokens = 30, .score = length == 7});
  }
  return requests;
}

TEST_CASE("a prompt's vector depends neither on chunks and neighbours nor on preemption") {
  const std::vector<Request> requests = mixed_requests();
  for (const Limits& limits :
       {Limits{.rows = 400, .context = 400, .sequences = 1},
        Limits{.rows = 400, .context = 400, .sequences = 24},
        Limits{.rows = 7, .context = 400, .sequences = 5},
        Limits{.rows = 33, .context = 400, .cache_tokens = 448, .sequences = 8}}) {
    CAPTURE(limits.rows, limits.sequences);
    const auto executor = limited_executor(limits);
    Scheduler scheduler(*executor, {.sequences = limits.sequences});
    Batch batch(requests);
    const Results& results = batch.run(scheduler);
    for (size_t i = 0; i < requests.size(); ++i) {
      CAPTURE(i);
      const Result& result = results.at({i, 0});
      CHECK(result.ends == 1);
      CHECK(result.ending == Ending::Length);
      if (requests[i].pooling == Pooling::None) {
        CHECK(result.vector.empty());
        CHECK(result.tokens == alone(requests[i], i));
        CHECK(result.prompt.size() == (requests[i].score ? requests[i].prompt.size() - 1 : 0));
      } else {
        CHECK(result.tokens.empty());
        CHECK(result.vector == expected_vector(requests[i].prompt, requests[i].pooling));
      }
    }
  }
}

TEST_CASE("only a mean needs a prompt's first rows: other vectors share prefixes") {
  const Tokens prompt = random_tokens(200, 3, kVocab);
  const auto computed = [&](Pooling pooling) {
    const auto executor = limited_executor({.rows = 400, .sequences = 4});
    Scheduler scheduler(*executor, {.sequences = 4});
    Batch batch({pooled(prompt, pooling), pooled(prompt, pooling)});
    batch.run(scheduler);
    return scheduler.counts().computed_tokens;
  };
  CHECK(computed(Pooling::Mean) == 400);
  CHECK(computed(Pooling::Last) == 200 + 200 - 192);
  CHECK(computed(Pooling::First) == 2);
}

TEST_CASE("a vector with NaN fails its own text alone") {
  std::vector<float> values(32, 1.0f);
  Generation generation = make_generation(pooled({1}, Pooling::Last), 0);
  const auto executor = limited_executor({});
  ScheduledSample sample{&generation, 0, 0, {1}, {}, executor->new_sequence()};
  sample.pooled.assign(values.begin(), values.end());
  CHECK(pooled_vector(sample) == values);
  sample.pooled[7] = std::numeric_limits<double>::quiet_NaN();
  CHECK(pooled_vector(sample).empty());
  sample.pooled[7] = 1e300;  // infinity as a float
  CHECK(pooled_vector(sample).empty());
}

}  // namespace
}  // namespace skald::test
