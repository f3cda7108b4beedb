// Preempted samples whose pages wait in the host's memory.
#include "engine/base/rng.h"
#include "engine/schedule/scheduler.h"
#include "tests/engine/schedule/scheduler_batch.h"
#include "tests/engine/schedule/timed_executor.h"

namespace skald::test {
namespace {

constexpr int64_t kPlenty = 1 << 30;

// More texts than the cache holds: with two answers to one prompt, and a prompt that is scored.
std::vector<Request> many_texts() {
  std::vector<Request> requests;
  for (uint64_t i = 0; i < 6; ++i) {
    requests.push_back({random_tokens(20 + 30 * static_cast<int64_t>(i), i, kVocab), 150});
    requests.back().samples = i == 3 ? 2 : 1;
    requests.back().score = i == 4;
  }
  return requests;
}

TimedExecutor full_executor(int64_t rows = 32) {
  return TimedExecutor(
      limited_executor({.rows = rows, .context = 400, .cache_tokens = 448, .sequences = 8}));
}

// Runs many_texts() and compares each with the text alone.
SchedulerCounts run_many(TimedExecutor& executor, const SwapLimits& swap) {
  static const std::vector<Request> requests = many_texts();
  static const std::vector<Tokens> expected = [] {
    std::vector<Tokens> tokens;
    for (size_t i = 0; i < requests.size(); ++i) {
      for (int s = 0; s < requests[i].samples; ++s) tokens.push_back(alone(requests[i], i, s));
    }
    return tokens;
  }();
  Scheduler scheduler(executor, {.sequences = 8, .swap = swap}, executor.clock());
  Batch batch(requests);
  const Results& results = batch.run(scheduler);
  std::vector<Tokens> tokens;
  for (const auto& [which, result] : results) tokens.push_back(result.tokens);
  CHECK(tokens == expected);
  CHECK(results.at({4, 0}).prompt.size() == requests[4].prompt.size() - 1);
  CHECK(scheduler.counts().preemptions > 1);
  CHECK(scheduler.swap_space().bytes_used() == 0);
  CHECK(scheduler.swap_space().bytes_taken() <= swap.bytes);
  return scheduler.counts();
}

TEST_CASE("preempted texts go on from swapped pages with the same tokens, and compute less") {
  TimedExecutor plain = full_executor(), swapping = full_executor();
  const SchedulerCounts without = run_many(plain, {});
  CHECK(without.swapped == 0);
  CHECK(plain.pages_out == 0);
  const SchedulerCounts with = run_many(swapping, {kPlenty});
  CHECK(with.swapped == with.preemptions);
  CHECK(with.swapped_tokens > 0);
  CHECK(swapping.pages_back > 0);
  CHECK(with.computed_tokens < without.computed_tokens);
  CHECK(with.new_tokens == without.new_tokens);
}

TEST_CASE("texts are begun again where copies take longer than computing") {
  TimedExecutor executor = full_executor();
  executor.seconds_of_byte = 1;
  const SchedulerCounts counts = run_many(executor, {kPlenty});
  REQUIRE(counts.preemptions < SwapTimes::kTryAgain);
  CHECK(counts.swapped == 1);  // by which the time became known
}

TEST_CASE("texts are begun again where the host has no room for their pages") {
  for (const int64_t pages : {1, 4}) {
    TimedExecutor executor = full_executor();
    const SchedulerCounts counts = run_many(executor, {pages * executor.page_bytes()});
    CHECK(counts.swapped < counts.preemptions);
    CHECK(executor.host_bytes <= pages * executor.page_bytes());
  }
  TimedExecutor executor = full_executor();
  executor.most_host_bytes = 0;
  CHECK(run_many(executor, {kPlenty}).swapped == 0);
  CHECK(executor.pages_out == 0);
}

TEST_CASE("texts are begun again where their pages cannot be copied back") {
  TimedExecutor executor = full_executor();
  executor.writes = false;
  const SchedulerCounts counts = run_many(executor, {kPlenty});
  CHECK(executor.pages_out > 0);
  CHECK(counts.swapped == 0);
  CHECK(counts.swapped_tokens == 0);
}

TEST_CASE("a cancelled text frees its swapped pages") {
  TimedExecutor executor = full_executor();
  Scheduler scheduler(executor, {.sequences = 8, .swap = {kPlenty}}, executor.clock());
  Batch batch(many_texts());
  for (Generation& generation : batch.all) scheduler.add(generation);
  int64_t step = 0;
  while (scheduler.swap_space().bytes_used() == 0) {
    REQUIRE(!scheduler.idle());
    batch.take(scheduler.step(), step++);
  }
  for (Generation& generation : batch.all) {
    for (int s = 0; s < generation.samples(); ++s) generation.cancelled[s] = true;
  }
  batch.take(scheduler.step(), step);
  CHECK(scheduler.idle());
  CHECK(scheduler.swap_space().bytes_used() == 0);
  CHECK(executor.pages_back == 0);
}

// Two answers to a prompt of two pages fill the cache, and the second one is swapped.
TEST_CASE("pages that another text has too are not copied, and are shared again") {
  const Request request{random_tokens(130, 1, kVocab), 150, 1.0f, 2};
  TimedExecutor executor = full_executor();
  Scheduler scheduler(executor, {.sequences = 8, .swap = {kPlenty}}, executor.clock());
  Batch batch({request});
  const Results& results = batch.run(scheduler);
  for (int s = 0; s < 2; ++s) CHECK(results.at({0, s}).tokens == alone(request, 0, s));
  const SchedulerCounts& counts = scheduler.counts();
  REQUIRE(counts.preemptions == 1);
  CHECK(counts.swapped == 1);
  CHECK(executor.pages_out == executor.pages_back);
  CHECK(executor.pages_out <= 3);
  CHECK(counts.swapped_tokens > 100);
  CHECK(counts.computed_tokens == 130 + 149 + 1 + 149);  // nothing twice
}

TEST_CASE("shared pages that are gone are computed, and swapped pages follow them") {
  const Request request{random_tokens(130, 1, kVocab), 150};
  // The second text fills the cache when the first one has ended, and the pages that the first and
  // the last one share are given up for it. The last one begins beside the first, and is swapped.
  const std::vector<Request> requests{request, {random_tokens(395, 2, kVocab), 3}, request};
  TimedExecutor executor = full_executor(400);  // rows for the whole text in one step
  Scheduler scheduler(executor, {.sequences = 8, .swap = {kPlenty}}, executor.clock());
  Batch batch(requests);
  const Results& results = batch.run(scheduler);
  for (size_t i = 0; i < 3; ++i) CHECK(results.at({i, 0}).tokens == alone(requests[i], i));
  CHECK(results.at({1, 0}).end_step < results.at({2, 0}).end_step);
  const SchedulerCounts& counts = scheduler.counts();
  CHECK(counts.swapped == 1);
  CHECK(counts.shared_tokens == 128);
  CHECK(counts.swapped_tokens > 100);
  CHECK(counts.computed_tokens == 130 + 149 + 395 + 2 + 2 + 149 + 128);  // the shared pages twice
}

TEST_CASE("pages of a prompt that came back are shared with other texts") {
  const Tokens prompt = random_tokens(130, 1, kVocab);
  // The first text needs the whole cache in the end.
  const std::vector<Request> requests{
      {random_tokens(180, 2, kVocab), 215}, {prompt, 100}, {prompt, 10}};
  TimedExecutor executor = full_executor();
  Scheduler scheduler(executor, {.sequences = 8, .swap = {kPlenty}}, executor.clock());
  Batch batch(requests);
  scheduler.add(batch.all[0]);
  scheduler.add(batch.all[1]);
  int64_t step = 0;
  while (executor.pages_back == 0) {
    REQUIRE(!scheduler.idle());
    batch.take(scheduler.step(), step++);
  }
  CHECK(scheduler.counts().shared_tokens == 0);
  CHECK(scheduler.counts().swapped_tokens >= 130);
  scheduler.add(batch.all[2]);
  while (!scheduler.idle()) batch.take(scheduler.step(), step++);
  CHECK(scheduler.counts().shared_tokens == 128);
  for (size_t i = 0; i < 3; ++i) CHECK(batch.results.at({i, 0}).tokens == alone(requests[i], i));
}

// Runs out of memory three times, in steps or picks.
class ShakyExecutor final : public WrappedExecutor {
 public:
  using WrappedExecutor::WrappedExecutor;

  int64_t run(Step step) override {
    shake();
    return inner_->run(step);
  }
  std::vector<Picked> pick(std::span<const PickRequest> requests) override {
    shake();
    return WrappedExecutor::pick(requests);
  }

 private:
  void shake() {
    if (++calls_ % 97 == 0 && calls_ < 300) fail(Exit::Memory, "no memory for a moment");
  }

  int calls_ = 0;
};

// Texts with common beginnings, several answers, scored prompts; some are cancelled.
void check_mixed(uint64_t seed) {
  int64_t draws = 0;
  const auto draw = [&](int64_t most) {
    return static_cast<int64_t>(uniform(seed, 4, draws++, 0) * static_cast<double>(most));
  };
  std::vector<Request> requests;
  for (uint64_t i = 0; i < 7; ++i) {
    Tokens prompt = random_tokens(200, static_cast<uint64_t>(draw(2)), kVocab);
    prompt.resize(static_cast<size_t>(draw(200)));
    for (const int32_t token : random_tokens(1 + draw(60), 100 + i, kVocab)) {
      prompt.push_back(token);
    }
    requests.push_back({prompt, 1 + draw(130), static_cast<float>(draw(2)),
                        static_cast<int>(1 + draw(5) / 3), draw(4) == 0});
  }
  TimedExecutor executor(std::make_unique<ShakyExecutor>(
      limited_executor({.context = 400, .cache_tokens = 64 * (7 + draw(4)), .sequences = 8})));
  executor.seconds_of_byte = static_cast<double>(draw(3)) / 800;
  const int64_t pages = draw(2) == 0 ? 1000 : 1 + draw(8);
  Scheduler scheduler(executor, {.sequences = 8, .swap = {pages * executor.page_bytes()}},
                      executor.clock());
  Batch batch(requests);
  for (Generation& generation : batch.all) scheduler.add(generation);
  for (int64_t step = 0; !scheduler.idle(); ++step) {
    batch.take(scheduler.step(), step);
    if (draw(100) == 0) batch.all[static_cast<size_t>(draw(7))].cancelled[0] = true;
  }
  for (const auto& [which, result] : batch.results) {
    CHECK(result.ending != Ending::Failed);
    Tokens expected = alone(requests[which.first], which.first, which.second);
    if (result.ending == Ending::Cancelled) expected.resize(result.tokens.size());
    CHECK(result.tokens == expected);
  }
  CHECK(scheduler.swap_space().bytes_used() == 0);
}

TEST_CASE("texts are the same whatever is shared, swapped, cancelled or begun again") {
  for (uint64_t seed = 0; seed < 12; ++seed) {
    CAPTURE(seed);
    check_mixed(seed);
  }
}

}  // namespace
}  // namespace skald::test
