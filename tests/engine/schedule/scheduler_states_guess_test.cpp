// Guesses of a scheduler for models with recurrent states, which go back after a wrong guess: they
// change no token, and no state is left over.
#include <algorithm>

#include "engine/base/error.h"
#include "engine/speculate/head_texts.h"
#include "engine/step/step.h"
#include "models/heads/heads.h"
#include "models/open.h"
#include "tests/eagle3_folder.h"
#include "tests/engine/schedule/knowing_texts.h"
#include "tests/engine/schedule/scheduler_batch.h"
#include "tests/engine/wrapped_executor.h"
#include "tests/golden.h"
#include "tests/paths.h"
#include "tests/recurrent_model.h"
#include "tests/space_model.h"
#include "tests/temp_folder.h"

namespace skald::test {
namespace {

constexpr int32_t kStatesVocab = 250;  // tokens of prompts; all of the models have more

// Models with delta nets, state spaces and, where its weights are at hand, short convolutions.
const std::vector<Model>& models_with_states() {
  static const TempFolder temp;
  static const std::vector<Model> models = [] {
    std::vector<Model> all = {
        open_model(temp.write("recurrent.gguf", RecurrentGguf().file())).model,
        open_model(temp.write("space.gguf", SpaceGguf().file())).model};
    if (const auto golden = find_golden("lfm2"); !golden.empty()) {
      all.push_back(open_model(golden).model);
    }
    return all;
  }();
  return models;
}

// Forbids a third of the tokens, by the one before. After each seventh token it forces three.
class Sieving final : public TokenFilter {
 public:
  std::span<const uint64_t> allowed() override {
    bits_.assign((kByteVocab + 63) / 64, 0);
    for (int32_t token = 0; token < kStatesVocab; ++token) {
      const bool fits = forced_.empty() ? (token + last_) % 3 != 0 : token == forced_.front();
      if (fits) bits_[static_cast<size_t>(token) / 64] |= uint64_t{1} << (token % 64);
    }
    return bits_;
  }
  void accept(int32_t token) override {
    last_ = token;
    ++taken_;
    if (!forced_.empty()) {
      CHECK(token == forced_.front());
      forced_.erase(forced_.begin());
    } else if (token % 7 == 0) {
      forced_ = {40 + token % 5, 50, 51};
    }
  }
  bool finished() const override { return taken_ == 70; }
  std::span<const int32_t> forced() override { return forced_; }
  std::unique_ptr<TokenFilter> copy() const override { return std::make_unique<Sieving>(*this); }

 private:
  int32_t last_ = 0;
  int taken_ = 0;
  Tokens forced_;
  std::vector<uint64_t> bits_;
};

struct StatesSetup {
  int sequences = 5, checkpoints = 5;
  TextsProposer* head = nullptr;  // guesses in the place of the known texts
  int64_t cache_tokens = 0;
  double wrong = 0;
  int most = 5;                          // guesses; 0: none
  bool ngram = false;                    // guesses from repetitions, and none of the known text
  int fails_each = 0;                    // a step of so many runs out of memory midway
  bool filters = false, scores = false;  // scores: of forced tokens
};

struct StatesRun {
  Results results;
  SchedulerCounts counts;
  int64_t most_texts = 0;
};

// Runs out of memory in the middle of some steps, whose tokens it takes back.
class ForgettingSteps final : public WrappedExecutor {
 public:
  ForgettingSteps(std::unique_ptr<Executor> inner, int each)
      : WrappedExecutor(std::move(inner)), each_(each) {}

  int64_t run(Step step) override {
    const int64_t rows = inner_->run(step);
    if (each_ == 0 || ++steps_ % each_ != 0 || steps_ > 2 * each_) return rows;
    take_back(step);
    fail(Exit::Memory, "no memory for a moment");
  }

 private:
  int each_, steps_ = 0;
};

RunOptions states_options(const StatesSetup& setup) {
  RunOptions options;
  options.threads = 1;
  options.rows = 64;
  options.context = 256;
  options.sequences = setup.sequences;
  options.cache_tokens = setup.cache_tokens;
  options.checkpoints = setup.checkpoints;
  return options;
}

// Without `known`, which has the texts, nothing is guessed.
StatesRun run_states(const Model& model, const std::vector<Request>& requests,
                     const StatesSetup& setup, const Results* known = nullptr) {
  ForgettingSteps executor(cpu::make_executor(model, states_options(setup)), setup.fails_each);
  Batch batch(requests);
  for (Generation& generation : batch.all) {
    generation.score_forced = setup.scores;
    if (setup.filters) generation.filters.push_back(std::make_unique<Sieving>());
  }
  std::map<uint64_t, Tokens> texts;
  for (size_t i = 0; known && i < requests.size(); ++i) {
    Tokens& text = texts[batch.all[i].streams[0]] = requests[i].prompt;
    const Tokens& more = known->at({i, 0}).tokens;
    text.insert(text.end(), more.begin(), more.end());
  }
  KnowingTexts draft(std::move(texts), setup.wrong, kStatesVocab);
  GuessPlan plan = {.most = known ? setup.most : 0, .ngram = setup.ngram};
  if (!setup.ngram) plan.draft = setup.head ? setup.head : &draft;
  StatesRun run;
  {
    // A step takes as long, however many rows it has.
    Scheduler scheduler(executor, {.sequences = setup.sequences, .guesses = plan},
                        [now = std::make_shared<double>(0)] { return ++*now; });
    run.results = batch.run(scheduler);
    run.counts = scheduler.counts();
  }
  run.most_texts = draft.most_texts;
  const OwnedNumbers& states = executor.pages().states();
  CHECK(states.free() == states.size());
  return run;
}

std::vector<Request> texts_with_states(int64_t max_tokens) {
  std::vector<Request> requests;
  for (const int64_t length : {9, 1, 40, 70, 23}) {
    Tokens prompt = random_tokens(length, static_cast<uint64_t>(length), kStatesVocab);
    requests.push_back({std::move(prompt), max_tokens, length % 2 ? 0.0f : 0.8f});
  }
  return requests;
}

void check_equal(const StatesRun& guessed, const StatesRun& plain) {
  for (const auto& [key, result] : plain.results) {
    CAPTURE(key.first);
    CHECK(guessed.results.at(key).tokens == result.tokens);
    CHECK(guessed.results.at(key).ending == result.ending);
  }
}

TEST_CASE("guesses change no token of a batch with recurrent states") {
  const std::vector<Request> requests = texts_with_states(60);
  for (const Model& model : models_with_states()) {
    const StatesRun plain = run_states(model, requests, {});
    CHECK(plain.counts.guesses.steps == 0);
    for (const double wrong : {0.0, 0.2, 1.0}) {
      CAPTURE(wrong);
      const StatesRun guessed = run_states(model, requests, {.wrong = wrong}, &plain.results);
      check_equal(guessed, plain);
      const SharedGuessCounts& counts = guessed.counts.guesses;
      CHECK(counts.draft.guesses > 15);
      if (wrong == 0) CHECK(counts.draft.right == counts.draft.guesses);
      if (wrong == 1) CHECK(counts.draft.right == 0);
      if (wrong < 1) CHECK(guessed.counts.steps < plain.counts.steps * 3 / 4);
      CHECK(guessed.counts.new_tokens == plain.counts.new_tokens);
    }
    const StatesRun repeats = run_states(model, requests, {.ngram = true}, &plain.results);
    check_equal(repeats, plain);
  }
}

TEST_CASE("guesses follow filters, which cut them and force tokens among them") {
  std::vector<Request> requests = texts_with_states(60);
  requests[0].max_tokens = requests[3].max_tokens = 100;  // the filter ends these
  RandomLlama shape;
  shape.layers = 1;
  shape.vocab = kByteVocab;
  for (const Model& model : {random_llama(shape), models_with_states()[0]}) {
    const StatesRun plain = run_states(model, requests, {.filters = true});
    CHECK(plain.results.at({0, 0}).ending == Ending::Stop);
    for (const bool scores : {false, true}) {
      const StatesRun each = run_states(model, requests, {.filters = true, .scores = scores});
      for (const double wrong : {0.0, 0.2, 1.0}) {
        CAPTURE(scores, wrong);
        const StatesRun guessed = run_states(
            model, requests, {.wrong = wrong, .filters = true, .scores = scores}, &plain.results);
        check_equal(guessed, plain);
        const SharedGuessCounts::Kind& counts = guessed.counts.guesses.draft;
        if (wrong == 0) CHECK(counts.right == counts.guesses);
        if (wrong == 1) CHECK(counts.right == 0);
        if (wrong < 1) CHECK(counts.right > 15);
        if (wrong < 1) CHECK(guessed.counts.steps < each.counts.steps * 3 / 4);
      }
      if (!scores) CHECK(each.counts.steps == plain.counts.steps);
      if (scores) CHECK(plain.counts.steps < each.counts.steps);  // forced ones are free
    }
  }
}

TEST_CASE("no more samples have guesses than there is room for their states") {
  const std::vector<Request> requests = texts_with_states(40);
  const Model& model = models_with_states().front();
  const StatesRun plain = run_states(model, requests, {.checkpoints = 0});
  for (const int checkpoints : {0, 1, 3}) {
    CAPTURE(checkpoints);
    const StatesRun guessed =
        run_states(model, requests, {.checkpoints = checkpoints, .wrong = 0.1}, &plain.results);
    check_equal(guessed, plain);
    CHECK(guessed.counts.preemptions == 0);
    // The last samples may use the slots of those that have ended.
    if (checkpoints == 0) CHECK(guessed.counts.guesses.steps < 5);
    if (checkpoints > 0) CHECK(guessed.counts.guesses.right > 10);
  }
}

TEST_CASE("samples with recurrent states go on with guesses after they were preempted") {
  std::vector<Request> requests = texts_with_states(150);
  const Model& model = models_with_states().front();
  const StatesSetup tight = {.cache_tokens = 384, .wrong = 0.1};
  const StatesRun plain = run_states(model, requests, tight);
  const StatesRun guessed = run_states(model, requests, tight, &plain.results);
  check_equal(guessed, plain);
  CHECK(guessed.counts.preemptions > 0);
  CHECK(guessed.counts.guesses.right > 50);
}

// The heads are random, and so is nearly every guess wrong.
TEST_CASE("samples go on with a head's guesses after they were preempted") {
  const TempFolder temp;
  Eagle3Folder().write(temp.path() / "head");
  const OpenedModel recurrent = open_model(temp.write("mtp.gguf", RecurrentGguf().file(true)));
  const OpenedModel demo = open_model(source_dir() / "models" / "demo");
  const auto check = [](const OpenedModel& opened, const OpenedHead& head) {
    std::vector<Request> requests = texts_with_states(90);
    StatesSetup tight = {.cache_tokens = 320};
    const StatesRun plain = run_states(opened.model, requests, tight);
    HeadTexts texts(cpu::make_executor(head.opened.model, states_options({})), head.kind);
    tight.head = &texts;
    Model tapped = opened.model;
    tapped.taps = head.taps;
    const StatesRun guessed = run_states(tapped, requests, tight, &plain.results);
    check_equal(guessed, plain);
    CHECK(guessed.counts.preemptions > 0);
    CHECK(guessed.counts.guesses.draft.guesses > 20);
  };
  check(recurrent, *open_mtp(recurrent));
  check(demo, open_eagle3(temp.path() / "head", demo));
}

TEST_CASE("a step with guesses that runs out of memory goes back to the states before it") {
  const std::vector<Request> requests = texts_with_states(40);
  for (const Model& model : models_with_states()) {
    const StatesRun plain = run_states(model, requests, {});
    for (const int each : {9, 14}) {
      const StatesRun guessed =
          run_states(model, requests, {.wrong = 0.2, .fails_each = each}, &plain.results);
      check_equal(guessed, plain);
      CHECK(guessed.counts.guesses.steps > 0);
    }
  }
}

}  // namespace
}  // namespace skald::test
