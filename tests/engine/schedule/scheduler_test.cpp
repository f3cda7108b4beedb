#include "engine/schedule/scheduler.h"

#include <cmath>
#include <limits>

#include "tests/engine/schedule/scheduler_batch.h"
#include "tests/engine/wrapped_executor.h"
#include "tests/error_text.h"

namespace skald::test {
namespace {

std::vector<Request> mixed_prompts() {
  std::vector<Request> requests;
  for (const int64_t length : {1, 5, 200, 64, 65, 31, 128, 3, 90, 17}) {
    requests.push_back({random_tokens(length, static_cast<uint64_t>(length), kVocab)});
    requests.back().temperature = length % 2 ? 1.0f : 0.0f;
  }
  return requests;
}

TEST_CASE(
    "a sequence gets the tokens that it gets alone, for any number of rows and sequences and any "
    "size of the cache") {
  const std::vector<Request> requests = mixed_prompts();
  std::vector<Tokens> expected;
  for (size_t i = 0; i < requests.size(); ++i) expected.push_back(alone(requests[i], i));
  for (const Limits limits :
       {Limits{.rows = 32, .sequences = 1}, Limits{.rows = 8}, Limits{.rows = 400, .sequences = 16},
        Limits{.cache_tokens = 400, .sequences = 10}}) {
    CAPTURE(limits.rows, limits.sequences, limits.cache_tokens);
    const auto executor = limited_executor(limits);
    Scheduler scheduler(*executor, {.sequences = limits.sequences});
    Batch batch(requests);
    const Results& results = batch.run(scheduler);
    for (size_t i = 0; i < requests.size(); ++i) {
      CAPTURE(i);
      CHECK(results.at({i, 0}).tokens == expected[i]);
      CHECK(results.at({i, 0}).ending == Ending::Length);
    }
    CHECK(scheduler.counts().new_tokens == 120);
  }
}

TEST_CASE(
    "when the cache is full, sequences are preempted and computed again with the same tokens") {
  std::vector<Request> requests;
  for (uint64_t i = 0; i < 6; ++i) {
    requests.push_back({random_tokens(20, i, kVocab), 150});
    requests.back().samples = i == 3 ? 2 : 1;
    requests.back().score = i == 4;
  }
  const auto executor = limited_executor({.context = 200, .cache_tokens = 320, .sequences = 8});
  Scheduler scheduler(*executor, {.sequences = 8});
  Batch batch(requests);
  const Results& results = batch.run(scheduler);
  CHECK(scheduler.counts().preemptions > 0);
  for (size_t i = 0; i < requests.size(); ++i) {
    for (int s = 0; s < requests[i].samples; ++s) {
      CHECK(results.at({i, s}).tokens == alone(requests[i], i, s));
    }
  }
  CHECK(results.at({4, 0}).prompt.size() == 19);
}

TEST_CASE("all pages are freed, except those kept for prompts with the same beginning") {
  const auto executor = limited_executor({.sequences = 4});
  const int64_t all = executor->pages().size();
  {
    Scheduler scheduler(*executor, {.sequences = 4});
    Batch batch({{random_tokens(200, 1, kVocab)}, {random_tokens(70, 2, kVocab)}});
    batch.run(scheduler);
    CHECK(executor->pages().free_pages() == all - 3 - 1);
  }
  CHECK(executor->pages().free_pages() == all);
}

TEST_CASE("a common beginning of prompts is computed once, also when the prompts arrive together") {
  const Tokens beginning = random_tokens(150, 1, kVocab);
  std::vector<Request> requests;
  for (uint64_t i = 0; i < 6; ++i) {
    Tokens prompt = beginning;
    for (int32_t token : random_tokens(10, 10 + i, kVocab)) prompt.push_back(token);
    requests.push_back({prompt, 3});
  }
  requests.push_back({beginning, 3});
  requests.push_back({Tokens(beginning.begin(), beginning.begin() + 128), 3});
  const auto executor = limited_executor({.sequences = 8});
  Scheduler scheduler(*executor, {.sequences = 8});
  Batch batch(requests);
  const Results& results = batch.run(scheduler);
  for (size_t i = 0; i < requests.size(); ++i) {
    CHECK(results.at({i, 0}).tokens == alone(requests[i], i));
  }
  CHECK(scheduler.counts().shared_tokens == 6 * 128 + 64);  // the last token is always computed
  const int64_t computed = 150 + 10 + 5 * (32) + 22 + 64 + 8 * 2;
  CHECK(scheduler.counts().computed_tokens == computed);
}

TEST_CASE("several samples of one prompt compute the prompt once, and differ") {
  const Request request{random_tokens(100, 1, kVocab), 10, 1.0f, 5};
  const auto executor = limited_executor({.sequences = 8});
  Scheduler scheduler(*executor, {.sequences = 8});
  Batch batch({request});
  const Results& results = batch.run(scheduler);
  for (int s = 0; s < 5; ++s) CHECK(results.at({0, s}).tokens == alone(request, 0, s));
  CHECK(results.at({0, 0}).tokens != results.at({0, 1}).tokens);
  CHECK(scheduler.counts().shared_tokens == 4 * 99);
}

TEST_CASE("the log-probabilities of a prompt's tokens follow from its logits, in any chunks") {
  const Request request{random_tokens(150, 3, kVocab), 2, 0.0f, 1, true};
  const auto reference = limited_executor({.rows = 400, .sequences = 1});
  Sequence sequence = reference->new_sequence();
  const SeqRows all{&sequence, request.prompt, Want::EveryRow};
  reference->run({&all, 1});
  for (const int64_t rows : {400, 32, 7}) {
    const auto executor = limited_executor({.rows = rows});
    Scheduler scheduler(*executor, {.sequences = 4});
    // Another prompt has the same beginning; rows to be scored must be computed all the same.
    Batch batch({{request.prompt, 5}, request, {request.prompt, 0, 0.0f, 1, true}});
    const Results& results = batch.run(scheduler);
    for (const size_t which : {1u, 2u}) {
      const Result& result = results.at({which, 0});
      REQUIRE(result.prompt.size() == 149);
      for (size_t i = 0; i < 149; ++i) {
        const auto logits = reference->logits(static_cast<int64_t>(i));
        double sum = 0;
        for (float logit : logits) sum += std::exp(double{logit});
        const int32_t token = request.prompt[i + 1];
        CHECK(result.prompt[i].token == token);
        CHECK(result.prompt[i].logprob ==
              Approx(logits[static_cast<size_t>(token)] - std::log(sum)).margin(1e-5));
        REQUIRE(result.prompt[i].top.size() == 2);
        CHECK(result.prompt[i].top[0].second >= result.prompt[i].logprob);
      }
    }
    CHECK(results.at({1, 0}).tokens == alone({request.prompt, 2, 0.0f}, 1));
    CHECK(results.at({2, 0}).tokens.empty());
    CHECK(results.at({2, 0}).ending == Ending::Length);
  }
}

TEST_CASE("a request that needs no step ends at once") {
  const auto executor = limited_executor({});
  Scheduler scheduler(*executor, {.sequences = 2});
  Batch batch({{{1, 2, 3}, 0}, {{1}, 0, 1.0f, 2, true}});
  const Results& results = batch.run(scheduler);
  CHECK(results.size() == 3);
  CHECK(scheduler.counts().steps == 0);
}

TEST_CASE("a sequence ends at a stop token, and when the context is full") {
  const Request request{random_tokens(10, 1, kVocab), 1000};
  const Tokens whole = alone(request, 0);
  const Tokens stops{whole[6]};
  const size_t at =
      static_cast<size_t>(std::find(whole.begin(), whole.end(), stops[0]) - whole.begin());
  const auto executor = limited_executor({});
  Scheduler scheduler(*executor, {.sequences = 2});
  Batch batch({request, request});
  batch.all[1].streams = batch.all[0].streams;
  batch.all[0].stops = stops;
  const Results& results = batch.run(scheduler);
  CHECK(results.at({0, 0}).ending == Ending::Stop);
  CHECK(results.at({0, 0}).tokens == Tokens(whole.begin(), whole.begin() + at + 1));
  CHECK(results.at({1, 0}).ending == Ending::Context);
  CHECK(results.at({1, 0}).tokens == whole);
  CHECK(whole.size() == 390);
}

TEST_CASE("a cancelled sequence ends with the next step, whether running or waiting") {
  const auto executor = limited_executor({});
  Scheduler scheduler(*executor, {.sequences = 1});
  Batch batch({{random_tokens(5, 1, kVocab), 100},
               {random_tokens(5, 2, kVocab), 4},
               {random_tokens(5, 3, kVocab), 4}});
  for (Generation& generation : batch.all) scheduler.add(generation);
  for (int i = 0; i < 3; ++i) batch.take(scheduler.step(), i);
  batch.all[0].cancelled[0] = true;
  batch.all[2].cancelled[0] = true;
  for (int i = 3; !scheduler.idle(); ++i) batch.take(scheduler.step(), i);
  CHECK(batch.results.at({0, 0}).ending == Ending::Cancelled);
  CHECK(batch.results.at({0, 0}).tokens.size() == 3);
  CHECK(batch.results.at({1, 0}).tokens.size() == 4);
  CHECK(batch.results.at({2, 0}).ending == Ending::Cancelled);
  CHECK(batch.results.at({2, 0}).tokens.empty());
}

TEST_CASE("a long prompt neither delays short ones nor waits for them") {
  std::vector<Request> requests{{random_tokens(390, 1, kVocab), 1}};
  for (uint64_t i = 0; i < 20; ++i) requests.push_back({random_tokens(8, 10 + i, kVocab), 2});
  const auto executor = limited_executor({.rows = 32, .sequences = 4});
  Scheduler scheduler(*executor, {.sequences = 4});
  Batch batch(requests);
  const Results& results = batch.run(scheduler);
  CHECK(results.at({0, 0}).end_step <= 390 / 16);
  CHECK(results.at({1, 0}).end_step <= 3);
  for (size_t i = 1; i <= 20; ++i) CHECK(results.at({i, 0}).end_step < 390 / 16);
}

TEST_CASE("others may overtake a sequence that does not fit, but not for ever") {
  std::vector<Request> requests;
  const auto add_short = [&](uint64_t i) {
    requests.push_back({random_tokens(60, 10 + i, kVocab), 3});
  };
  for (uint64_t i = 0; i < 3; ++i) add_short(i);
  requests.push_back({random_tokens(380, 1, kVocab), 1});
  for (uint64_t i = 3; i < 100; ++i) add_short(i);
  const auto executor = limited_executor({.rows = 400, .cache_tokens = 448, .sequences = 8});
  Scheduler scheduler(*executor, {.sequences = 8});
  Batch batch(requests);
  const Results& results = batch.run(scheduler);
  int before = 0;
  for (size_t i = 4; i < requests.size(); ++i) {
    before += results.at({i, 0}).end_step < results.at({3, 0}).end_step;
  }
  CHECK(before > 0);
  CHECK(before < 30);
  CHECK(scheduler.counts().preemptions == 0);
}

// Puts a NaN into the logits of one sequence, recognized by its last token.
class NanExecutor final : public WrappedExecutor {
 public:
  using WrappedExecutor::WrappedExecutor;

  int64_t run(Step step) override {
    bad_rows_.clear();
    for (const SeqRows& rows : step) {
      if (rows.want == Want::LastRow) bad_rows_.push_back(rows.tokens.back() == kVocab - 1);
      if (rows.want == Want::EveryRow) bad_rows_.resize(bad_rows_.size() + rows.tokens.size());
    }
    return inner_->run(step);
  }
  std::span<const float> logits(int64_t row) override {
    const auto good = inner_->logits(row);
    if (!bad_rows_[static_cast<size_t>(row)]) return good;
    bad_.assign(good.begin(), good.end());
    bad_[7] = std::numeric_limits<float>::quiet_NaN();
    return bad_;
  }

 private:
  std::vector<bool> bad_rows_;
  std::vector<float> bad_;
};

TEST_CASE("a NaN logit ends its own sequence alone") {
  std::vector<Request> requests = mixed_prompts();
  requests[3].prompt.back() = kVocab - 1;
  for (Request& one : requests) one.temperature = 0;
  NanExecutor executor(limited_executor({.sequences = 10}));
  Scheduler scheduler(executor, {.sequences = 10});
  Batch batch(requests);
  for (Generation& generation : batch.all) {
    generation.params.logit_bias = {{kVocab - 1, -std::numeric_limits<float>::infinity()}};
  }
  const Results& results = batch.run(scheduler);
  for (size_t i = 0; i < requests.size(); ++i) {
    const Result& result = results.at({i, 0});
    CHECK(result.ending == (i == 3 ? Ending::Failed : Ending::Length));
    CHECK(result.tokens.size() == (i == 3 ? 0 : 12));
  }
  CHECK(has(results.at({3, 0}).problem, "logit"));
}

// Has memory for a limited number of rows in a step, and of picks.
class FullExecutor final : public WrappedExecutor {
 public:
  FullExecutor(std::unique_ptr<Executor> inner, size_t most, size_t most_picks)
      : WrappedExecutor(std::move(inner)), most_(most), most_picks_(most_picks) {}

  int64_t run(Step step) override {
    size_t rows = 0;
    for (const SeqRows& part : step) rows += part.tokens.size();
    if (rows > most_) fail(Exit::Memory, "no memory for ", rows, " rows");
    return inner_->run(step);
  }

  std::vector<Picked> pick(std::span<const PickRequest> requests) override {
    if (requests.size() > most_picks_) fail(Exit::Memory, "no memory for ", requests.size());
    return inner_->pick(requests);
  }

 private:
  size_t most_, most_picks_;
};

void check_lowered(size_t most_rows, size_t most_picks) {
  const std::vector<Request> requests = mixed_prompts();
  FullExecutor executor(limited_executor({.sequences = 10}), most_rows, most_picks);
  Scheduler scheduler(executor, {.sequences = 10});
  Batch batch(requests);
  const Results& results = batch.run(scheduler);
  CHECK(scheduler.counts().lowered > 0);
  for (size_t i = 0; i < requests.size(); ++i) {
    CHECK(results.at({i, 0}).tokens == alone(requests[i], i));
  }
}

TEST_CASE("when memory runs out while tokens are picked, the picks are repeated in parts") {
  for (const size_t most : {3u, 1u}) check_lowered(1000, most);
}

TEST_CASE("when the device's memory runs out, steps become smaller and all sequences finish") {
  for (const size_t most : {11u, 3u, 1u}) check_lowered(most, 1000);
  const std::vector<Request> requests = mixed_prompts();
  FullExecutor none(limited_executor({}), 0, 0);
  Scheduler scheduler(none, {.sequences = 4});
  Batch batch({requests[0], requests[1]});
  const Results& results = batch.run(scheduler);
  CHECK(results.at({0, 0}).ending == Ending::Failed);
  CHECK(has(results.at({1, 0}).problem, "no memory"));
}

}  // namespace
}  // namespace skald::test
