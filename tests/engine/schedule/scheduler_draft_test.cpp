// A draft model guesses for the samples of a scheduler together, and changes no token.
#include <algorithm>

#include "engine/schedule/scheduler.h"
#include "engine/speculate/draft_texts.h"
#include "tests/engine/schedule/scheduler_batch.h"
#include "tests/engine/wrapped_executor.h"
#include "tests/error_text.h"

namespace skald::test {
namespace {

// Counts the steps of a draft model, and takes time for them.
class CountedDraft final : public WrappedExecutor {
 public:
  struct Seen {
    int64_t steps = 0, rows = 0, most_sequences = 0;
    int failures = 0;  // so many steps still fail
    double now = 0, step_seconds = 0;
  };
  CountedDraft(std::unique_ptr<Executor> inner, Seen& seen)
      : WrappedExecutor(std::move(inner)), seen_(seen) {}

  int64_t run(Step step) override {
    if (seen_.failures > 0 && seen_.failures-- > 0) fail(Exit::Memory, "no memory for the draft");
    ++seen_.steps;
    seen_.now += seen_.step_seconds;
    seen_.most_sequences = std::max(seen_.most_sequences, std::ssize(step));
    for (const SeqRows& rows : step) seen_.rows += std::ssize(rows.tokens);
    return inner_->run(step);
  }

 private:
  Seen& seen_;
};

std::vector<Request> texts() {
  std::vector<Request> requests;
  for (const int64_t length : {20, 40, 64, 7, 100, 23}) {
    requests.push_back({random_tokens(length, static_cast<uint64_t>(length), kVocab), 60});
    requests.back().temperature = length % 2 ? 0.0f : 0.9f;
  }
  return requests;
}

struct Drafted {
  Results results;
  SchedulerCounts counts;
  CountedDraft::Seen seen;
};

struct Setup {
  Limits limits = {.rows = 64, .sequences = 8};
  Limits draft = {.rows = 64, .sequences = 8};
  int most = 5, failures = 0;
  double step_seconds = 0;  // of the draft model; a step of the model takes 1
  bool ngram = false;
};

// The draft model is the model itself, so its guesses are right.
Drafted run_drafted(const std::vector<Request>& requests, const Setup& setup) {
  Drafted run;
  run.seen.step_seconds = setup.step_seconds;
  run.seen.failures = setup.failures;
  const SecondsClock clock = [&run] { return run.seen.now += 0.001; };
  // The model's steps take a second.
  class Slow final : public WrappedExecutor {
   public:
    Slow(std::unique_ptr<Executor> inner, double& now)
        : WrappedExecutor(std::move(inner)), now_(now) {}
    int64_t run(Step step) override {
      now_ += 1;
      return inner_->run(step);
    }

   private:
    double& now_;
  };
  Slow executor(limited_executor(setup.limits), run.seen.now);
  DraftTexts draft(std::make_unique<CountedDraft>(limited_executor(setup.draft), run.seen), kVocab,
                   {}, clock);
  Scheduler scheduler(executor,
                      {.sequences = setup.limits.sequences,
                       .guesses = {.most = setup.most, .ngram = setup.ngram, .draft = &draft}},
                      clock);
  Batch batch(requests);
  run.results = batch.run(scheduler);
  run.counts = scheduler.counts();
  return run;
}

void check_same(const std::vector<Request>& requests, const Drafted& run) {
  for (size_t i = 0; i < requests.size(); ++i) {
    for (int s = 0; s < requests[i].samples; ++s) {
      CAPTURE(i, s);
      CHECK(run.results.at({i, s}).tokens == alone(requests[i], i, s));
      CHECK(run.results.at({i, s}).ending == Ending::Length);
    }
  }
}

TEST_CASE("a draft model guesses for all samples of a step together, and changes no token") {
  std::vector<Request> requests = texts();
  requests[1].samples = 3;
  requests[2].score = true;
  requests[3].max_tokens = 2;
  const Drafted run = run_drafted(requests, {});
  check_same(requests, run);
  CHECK(run.counts.guesses.draft.guesses > 100);
  CHECK(run.counts.guesses.draft.right == run.counts.guesses.draft.guesses);
  CHECK(run.counts.guesses.ngram.guesses == 0);
  CHECK(run.counts.guesses.draft_seconds > 0);
  CHECK(run.seen.most_sequences >= 7);
  CHECK(run.counts.steps < 40);  // more than 60 without guesses
  // As many draft steps as a text has guesses in a step, and some for the prompts.
  CHECK(run.seen.steps <= 5 * run.counts.guesses.steps + 10);
}

TEST_CASE("a draft model guesses beside repeated text, and each kind is counted") {
  std::vector<Request> requests = texts();
  for (Request& request : requests) request.temperature = 0, request.max_tokens = 100;
  const Drafted run = run_drafted(requests, {.ngram = true});
  check_same(requests, run);
  const SharedGuessCounts& counts = run.counts.guesses;
  CHECK(counts.draft.guesses > 20);
  CHECK(counts.ngram.guesses > 20);
  CHECK(counts.draft.guesses + counts.ngram.guesses == counts.guesses);
  CHECK(counts.draft.right + counts.ngram.right == counts.right);
}

TEST_CASE("samples for which the draft model's cache has no room go without guesses") {
  std::vector<Request> requests = texts();
  const Setup small = {.draft = {.rows = 16, .context = 130, .cache_tokens = 192, .sequences = 8}};
  const Drafted run = run_drafted(requests, small);
  check_same(requests, run);
  CHECK(run.counts.guesses.draft.right > 20);
  CHECK(run.counts.guesses.draft.right == run.counts.guesses.draft.guesses);
  CHECK(run.counts.preemptions == 0);
  CHECK(run.seen.most_sequences < 6);
}

TEST_CASE("preempted samples go on with a draft model's guesses") {
  std::vector<Request> requests = texts();
  for (Request& request : requests) request.max_tokens = 120, request.temperature = 0;
  const Limits tight = {.context = 330, .cache_tokens = 448, .sequences = 6};
  const Drafted run = run_drafted(requests, {.limits = tight});
  CHECK(run.counts.preemptions > 0);
  CHECK(run.counts.guesses.draft.right > 50);
  for (size_t i = 0; i < requests.size(); ++i) {
    CHECK(run.results.at({i, 0}).tokens == alone(requests[i], i));
  }
}

TEST_CASE("a slow draft model is left for plain steps") {
  std::vector<Request> requests = texts();
  for (Request& request : requests) request.max_tokens = 250;
  const Drafted slow = run_drafted(requests, {.step_seconds = 2});
  check_same(requests, slow);
  CHECK(slow.counts.guesses.steps < 30);
  const Drafted quick = run_drafted(requests, {.step_seconds = 0.05});
  check_same(requests, quick);
  CHECK(quick.counts.guesses.steps > 40);
  CHECK(quick.seen.now < 0.6 * slow.seen.now);
}

TEST_CASE("a draft model that fails guesses no more, and all samples go on") {
  const std::vector<Request> requests = texts();
  const Drafted once = run_drafted(requests, {.failures = 1});
  check_same(requests, once);
  CHECK(once.counts.guesses.draft.right > 50);
  const Drafted always = run_drafted(requests, {.failures = 1000});
  check_same(requests, always);
  CHECK(always.counts.guesses.guesses == 0);
  CHECK(always.counts.guesses.draft_ended_by == "no memory for the draft");
}

TEST_CASE("equal beginnings are computed once by the draft model") {
  std::vector<Request> requests = {{random_tokens(150, 1, kVocab), 40, 1, 6}};
  const Drafted run = run_drafted(requests, {.limits = {.rows = 256, .sequences = 8}});
  check_same(requests, run);
  CHECK(run.counts.guesses.draft.right > 50);
  CHECK(run.seen.rows < 2 * 150 + 6 * 80);
}

}  // namespace
}  // namespace skald::test
