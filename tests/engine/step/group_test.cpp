// A group of ranks as an Executor: sequences, caches, and ranks that fail.
#include "engine/step/group.h"

#include <cmath>
#include <thread>

#include "engine/cpu/executor.h"
#include "engine/schedule/session.h"
#include "tests/catch.h"
#include "tests/engine/random_llama.h"
#include "tests/engine/wrapped_executor.h"
#include "tests/error_text.h"

namespace skald::test {
namespace {

using cpu::KernelSet;

const RandomLlama kShape = {.layers = 2, .heads = 4, .kv_heads = 2, .head_dim = 64};

// A rank that has no memory for a number of steps, and for a number of rows of logits.
struct Failures {
  int steps = 0, logits = 0;
};
class FailingRank final : public Wrapped<RankExecutor> {
 public:
  FailingRank(std::unique_ptr<RankExecutor> inner, Failures& failures)
      : Wrapped(std::move(inner)), failures_(failures) {}

  void check_step(Step step) const override { inner_->check_step(step); }
  int64_t run_extended(Step step, const Extension& extension) override {
    if (failures_.steps > 0 && failures_.steps--) fail(Exit::Memory, "no memory for this step");
    return inner_->run_extended(step, extension);
  }
  std::span<const float> logits(int64_t row) override {
    if (failures_.logits > 0 && failures_.logits--) fail(Exit::Memory, "no memory for logits");
    return inner_->logits(row);
  }
  void drop_logits() override { inner_->drop_logits(); }

 private:
  Failures& failures_;
};

// The last of three ranks has the failures.
std::unique_ptr<Executor> failing_group(const Model& model, Failures& failures) {
  const auto exchange = std::make_shared<ThreadExchange>(3);
  return make_group(model, 3, exchange, [&, exchange](const Model& shard) {
    std::unique_ptr<RankExecutor> rank =
        cpu::make_rank(shard, {.exact = true, .threads = 1}, KernelSet::Fast, exchange);
    if (shard.shard.rank == 2) rank = std::make_unique<FailingRank>(std::move(rank), failures);
    return rank;
  });
}

std::vector<int32_t> greedy(Executor& executor, const std::vector<int32_t>& prompt, int count) {
  Session session(executor, SamplingParams{.temperature = 0});
  session.feed(prompt);
  std::vector<int32_t> tokens;
  while (std::ssize(tokens) < count) tokens.push_back(session.next().token);
  return tokens;
}

TEST_CASE("a step fails where one rank fails, and the group goes on") {
  Failures failures;
  const Model model = random_llama(kShape);
  const auto group = failing_group(model, failures);
  const std::vector<int32_t> prompt = random_tokens(70, 5);
  const std::vector<int32_t> expected = greedy(*group, prompt, 5);
  Sequence sequence = group->new_sequence();
  const SeqRows rows{&sequence, std::span(prompt).first(40), Want::LastRow};
  group->run({&rows, 1});
  for (int time = 0; time < 3; ++time) {
    failures.steps = 4;  // the step, and its repetitions
    const SeqRows more{&sequence, std::span(prompt).subspan(40), Want::LastRow};
    CHECK(error_text([&] { group->run({&more, 1}); }, Exit::Memory) == "no memory for this step");
    CHECK(sequence.length() == 40);
    CHECK(greedy(*group, prompt, 5) == expected);
  }
}

TEST_CASE("logits that one rank has no memory for are computed by all ranks again") {
  Failures failures;
  const Model model = random_llama(kShape);
  const auto group = failing_group(model, failures);
  const std::vector<int32_t> prompt = random_tokens(20, 5);
  Sequence sequence = group->new_sequence();
  const SeqRows rows{&sequence, prompt, Want::EveryRow};
  group->run({&rows, 1});
  const auto logits = [&](int64_t row) {
    const auto own = group->logits(row);
    return std::vector<float>(own.begin(), own.end());
  };
  const std::vector<float> first = logits(0), last = logits(19);
  failures.logits = 2;
  CHECK(logits(0) == first);
  failures.logits = 4;
  CHECK(error_text([&] { group->logits(19); }, Exit::Memory) == "no memory for logits");
  CHECK(logits(19) == last);
  CHECK(logits(0) == first);
}

TEST_CASE("groups compare their rows, also with one that has other ranks") {
  const Model model = random_llama(kShape);
  const RunOptions options = {.exact = true, .threads = 1};
  const auto two = cpu::make_group(model, options, 2), same = cpu::make_group(model, options, 2),
             three = cpu::make_group(model, options, 3);
  const auto alone = cpu::make_executor(model, options);
  const std::vector<int32_t> tokens = random_tokens(20, 9);
  const std::span<const int32_t> targets = std::span(tokens).subspan(1);
  std::vector<Sequence> sequences;
  for (Executor* executor : {two.get(), same.get(), three.get(), alone.get()}) {
    sequences.push_back(executor->new_sequence());
    const SeqRows rows{&sequences.back(), std::span(tokens).first(19), Want::EveryRow};
    executor->run({&rows, 1});
  }
  const std::vector<TokenScore> scores = alone->score(targets), by_two = two->score(targets);
  for (Executor* base : {same.get(), three.get(), alone.get()}) {
    const std::vector<RowComparison> rows = two->compare(*base, targets);
    REQUIRE(rows.size() == 19);
    for (size_t i = 0; i < rows.size(); ++i) {
      CHECK(std::abs(rows[i].divergence) < 1e-5);
      CHECK(std::abs(by_two[i].logprob - scores[i].logprob) < 1e-4);
    }
  }
}

TEST_CASE("a group whose ranks cannot all be made is an error of the rank") {
  const auto exchange = std::make_shared<ThreadExchange>(2);
  const auto make = [&](const Model& shard) -> std::unique_ptr<RankExecutor> {
    if (shard.shard.rank == 1) fail(Exit::Memory, "rank 1 has no memory");
    return cpu::make_rank(shard, {.exact = true, .threads = 1}, KernelSet::Fast, exchange);
  };
  CHECK(error_text([&] { make_group(random_llama(kShape), 2, exchange, make); }, Exit::Memory) ==
        "rank 1 has no memory");
}

TEST_CASE("sequences of a group fork and shrink, and their pages can be written elsewhere") {
  const Model model = random_llama(kShape);
  const RunOptions options = {.exact = true, .sequences = 3, .threads = 2};
  const auto group = cpu::make_group(model, options, 2);
  const std::vector<int32_t> tokens = random_tokens(100, 7);
  const auto last_logits = [&](Sequence& sequence, std::span<const int32_t> more) {
    const SeqRows rows{&sequence, more, Want::LastRow};
    group->run({&rows, 1});
    const auto logits = group->logits(0);
    return std::vector<float>(logits.begin(), logits.end());
  };
  Sequence whole = group->new_sequence();
  last_logits(whole, std::span(tokens).first(90));
  const std::vector<float> expected = last_logits(whole, std::span(tokens).subspan(90));

  whole.truncate(90);
  Sequence fork = whole.fork();
  CHECK(last_logits(fork, std::span(tokens).subspan(90)) == expected);
  CHECK(last_logits(whole, std::span(tokens).subspan(90)) == expected);

  // The group's page is the pages of all ranks.
  CHECK(group->page_bytes() == cpu::make_executor(model, options)->page_bytes());
  whole.truncate(90);
  Sequence copy = group->new_sequence();
  last_logits(copy, std::span(tokens).last(90));  // other tokens, which are overwritten
  std::vector<std::byte> bytes(static_cast<size_t>(group->page_bytes()));
  for (size_t page = 0; page < whole.pages().size(); ++page) {
    group->read_page(whole.pages()[page], bytes);
    group->write_page(copy.pages()[page], bytes);
  }
  CHECK(last_logits(copy, std::span(tokens).subspan(90)) == expected);
  CHECK(group->page_format().starts_with("ranks 2 cpu "));
}

TEST_CASE("ranks join their columns") {
  ThreadExchange exchange(3);
  const std::vector<int64_t> borders = {0, 1, 3, 6};
  std::vector<std::vector<float>> own = {{1, 11}, {2, 3, 12, 13}, {4, 5, 6, 14, 15, 16}};
  std::vector<std::vector<float>> all(3, std::vector<float>(12));
  std::vector<std::thread> threads;
  threads.reserve(3);
  for (size_t rank = 0; rank < 3; ++rank) {
    threads.emplace_back(
        [&, rank] { exchange.all_gather(static_cast<int>(rank), own[rank], borders, all[rank]); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::vector<float>& joined : all) {
    CHECK(joined == std::vector<float>{1, 2, 3, 4, 5, 6, 11, 12, 13, 14, 15, 16});
  }
}

TEST_CASE("sums do not depend on which rank comes first") {
  ThreadExchange exchange(3);
  const std::vector<std::vector<float>> parts = {
      {1e8f, 1, 2, 3, 4, 5, 6}, {1, 10, 20, 30, 40, 50, 60}, {-1e8f, 100, 200, 300, 400, 500, 600}};
  for (int time = 0; time < 50; ++time) {
    std::vector<std::vector<float>> x = parts;
    std::vector<std::thread> threads;
    threads.reserve(3);
    for (int rank = 0; rank < 3; ++rank) {
      threads.emplace_back([&, rank] {
        if (rank == time % 3) std::this_thread::yield();
        exchange.all_reduce(rank, x[static_cast<size_t>(rank)]);
      });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(x[0] == std::vector<float>{(1e8f + 1) - 1e8f, 111, 222, 333, 444, 555, 666});
    CHECK(x[1] == x[0]);
    CHECK(x[2] == x[0]);
  }
}

}  // namespace
}  // namespace skald::test
