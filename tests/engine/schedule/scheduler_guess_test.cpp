// A scheduler's guesses change no token, whatever becomes of the samples that have some.
#include "engine/schedule/scheduler.h"

#include <algorithm>

#include "tests/engine/schedule/scheduler_batch.h"
#include "tests/engine/wrapped_executor.h"
#include "tests/error_text.h"

namespace skald::test {
namespace {

// Every call of the clock is later by one: a step takes as long, however many rows it has. So
// guesses pay.
SecondsClock counting_clock() {
  return [now = std::make_shared<double>(0)] { return ++*now; };
}

// A text that repeats itself, and samples at temperature 0, which soon repeat themselves.
std::vector<Request> repeating_prompts() {
  std::vector<Request> requests;
  for (const int64_t length : {1, 40, 64, 7, 100, 23}) {
    Tokens prompt = random_tokens(length, static_cast<uint64_t>(length), kVocab);
    const Tokens once = prompt;
    prompt.insert(prompt.end(), once.begin(), once.end());
    requests.push_back({prompt, 60});
    requests.back().temperature = length % 2 ? 0.0f : 0.7f;
  }
  return requests;
}

struct GuessedRun {
  SchedulerCounts counts;
  Results results;
};

GuessedRun run_guessing(const std::vector<Request>& requests, const Limits& limits, int guesses) {
  const auto executor = limited_executor(limits);
  Scheduler scheduler(*executor, {.sequences = limits.sequences, .guesses = {.most = guesses}},
                      counting_clock());
  Batch batch(requests);
  GuessedRun run;
  run.results = batch.run(scheduler);
  run.counts = scheduler.counts();
  return run;
}

// The run without guesses, and that with guesses, whose tokens are the same.
std::pair<GuessedRun, GuessedRun> run_both(const std::vector<Request>& requests,
                                           const Limits& limits) {
  std::pair<GuessedRun, GuessedRun> runs = {run_guessing(requests, limits, 0),
                                            run_guessing(requests, limits, 7)};
  for (size_t i = 0; i < requests.size(); ++i) {
    CHECK(runs.second.results.at({i, 0}).tokens == runs.first.results.at({i, 0}).tokens);
  }
  return runs;
}

TEST_CASE("guesses change no token of a batch, and fewer steps give the tokens") {
  std::vector<Request> requests = repeating_prompts();
  requests[1].samples = 3;
  requests[2].score = true;
  requests[3].max_tokens = 2;
  std::vector<std::vector<Tokens>> expected;
  for (size_t i = 0; i < requests.size(); ++i) {
    expected.emplace_back();
    for (int s = 0; s < requests[i].samples; ++s) {
      expected.back().push_back(alone(requests[i], i, s));
    }
  }
  for (const Limits limits : {Limits{.sequences = 1}, Limits{.rows = 64, .sequences = 8},
                              Limits{.rows = 16, .sequences = 5}}) {
    for (const int guesses : {1, 7}) {
      CAPTURE(limits.rows, limits.sequences, guesses);
      const GuessedRun plain = run_guessing(requests, limits, 0);
      const GuessedRun guessed = run_guessing(requests, limits, guesses);
      CHECK(plain.counts.guesses.steps == 0);
      CHECK(guessed.counts.guesses.right > 20);
      CHECK(guessed.counts.guesses.right <= guessed.counts.guesses.guesses);
      CHECK(guessed.counts.steps <= plain.counts.steps);
      CHECK(guessed.counts.new_tokens == plain.counts.new_tokens);
      for (size_t i = 0; i < requests.size(); ++i) {
        for (int s = 0; s < requests[i].samples; ++s) {
          CAPTURE(i, s);
          CHECK(guessed.results.at({i, s}).tokens == expected[i][static_cast<size_t>(s)]);
          CHECK(guessed.results.at({i, s}).ending == Ending::Length);
        }
      }
    }
  }
}

TEST_CASE("guesses preempt no sample, and preempted samples go on with guesses") {
  std::vector<Request> requests = repeating_prompts();
  for (Request& request : requests) request.max_tokens = 120, request.temperature = 0;
  const Limits limits = {.context = 330, .cache_tokens = 448, .sequences = 6};
  const auto [plain, guessed] = run_both(requests, limits);
  CHECK(guessed.counts.preemptions > 0);
  CHECK(guessed.counts.preemptions <= plain.counts.preemptions + 1);
  CHECK(guessed.counts.guesses.right > 50);
}

TEST_CASE("guesses end with the context, with stop tokens and with cancelled samples") {
  std::vector<Request> requests = repeating_prompts();
  for (Request& request : requests) request.max_tokens = 1000, request.temperature = 0;
  const Limits limits = {.rows = 64, .context = 250, .sequences = 6};
  const auto [plain, guessed] = run_both(requests, limits);
  for (size_t i = 0; i < requests.size(); ++i) {
    CHECK(guessed.results.at({i, 0}).ending == Ending::Context);
  }
  // A stop token that may stand in the middle of right guesses.
  for (const int guesses : {0, 7}) {
    const auto executor = limited_executor(limits);
    Scheduler scheduler(*executor, {.sequences = 6, .guesses = {.most = guesses}},
                        counting_clock());
    Batch batch(requests);
    std::vector<std::vector<int32_t>> stops;
    for (size_t i = 0; i < requests.size(); ++i) {
      stops.push_back({plain.results.at({i, 0}).tokens.at(20)});
      batch.all[i].stops = stops.back();
    }
    batch.all[5].cancelled[0] = true;
    const Results& results = batch.run(scheduler);
    for (size_t i = 0; i + 1 < requests.size(); ++i) {
      CAPTURE(guesses, i);
      const Tokens& whole = plain.results.at({i, 0}).tokens;
      const auto first = std::find(whole.begin(), whole.end(), stops[i].front());
      CHECK(results.at({i, 0}).tokens == Tokens(whole.begin(), first + 1));
      CHECK(results.at({i, 0}).ending == Ending::Stop);
    }
    CHECK(results.at({5, 0}).ending == Ending::Cancelled);
  }
}

// Steps of more rows than samples need too much memory.
class NoGuesses final : public WrappedExecutor {
 public:
  using WrappedExecutor::WrappedExecutor;

  int64_t run(Step step) override {
    for (const SeqRows& rows : step) {
      if (rows.want == Want::EveryRow) fail(Exit::Memory, "no memory for guesses");
    }
    return inner_->run(step);
  }
};

TEST_CASE("where there is no memory for guesses, there are none, and the load stays") {
  const std::vector<Request> requests = repeating_prompts();
  NoGuesses executor(limited_executor({.rows = 64, .sequences = 6}));
  Scheduler scheduler(executor, {.sequences = 6, .guesses = {.most = 7}}, counting_clock());
  Batch batch(requests);
  const Results& results = batch.run(scheduler);
  CHECK(scheduler.counts().lowered == 0);
  CHECK(scheduler.counts().guesses.steps == 0);
  for (size_t i = 0; i < requests.size(); ++i) {
    CHECK(results.at({i, 0}).tokens == alone(requests[i], i));
  }
}

}  // namespace
}  // namespace skald::test
