// Executor::score() and compare() on the GPU, compared with engine/sampling/score.h on the same
// logits and with the CPU's executor.
#include <algorithm>
#include <cmath>

#include "cuda/cuda.h"
#include "engine/cpu/executor.h"
#include "engine/perplexity/windows.h"
#include "models/open.h"
#include "tests/catch.h"
#include "tests/cuda/kernels/switches.h"
#include "tests/engine/random_llama.h"
#include "tests/golden.h"

namespace skald::test {
namespace {

// A step of one sequence that computes the logits of every row.
struct Text {
  Sequence sequence;
  std::vector<int32_t> ids;

  Text(Executor& executor, int64_t count, uint64_t seed, int64_t vocab)
      : sequence(executor.new_sequence()), ids(random_tokens(count, seed, vocab)) {
    const SeqRows rows{&sequence, ids, Want::EveryRow};
    REQUIRE(executor.run({&rows, 1}) == count);
  }
};

// The order of the sums may differ, nothing else.
void check_same(const TokenScore& a, const TokenScore& b) {
  REQUIRE(std::fabs(a.logprob - b.logprob) <= 1e-11);
  REQUIRE(std::fabs(a.entropy - b.entropy) <= 1e-11);
  REQUIRE(std::fabs(a.top_logprob - b.top_logprob) <= 1e-11);
  REQUIRE(a.top == b.top);
  REQUIRE(a.rank == b.rank);
}

RandomLlama bf16_shape(int64_t vocab) {
  RandomLlama shape;
  shape.type = DType::BF16;
  shape.vocab = vocab;
  return shape;
}

// The mean negative log-likelihood of windows of `window` tokens.
double mean_nll(Executor& executor, const std::vector<int32_t>& ids, size_t window) {
  std::vector<TokenWindow> windows;
  for (size_t at = 0; at + window <= ids.size(); at += window) {
    windows.push_back({std::span(ids).subspan(at, window), static_cast<int64_t>(window) / 2});
  }
  double sum = 0;
  int64_t tokens = 0;
  for (size_t done = 0; done < windows.size();) {
    const auto left = std::span(windows).subspan(done);
    const size_t count = windows_in_step(executor, left);
    Executor* const executors[] = {&executor};
    run_windows(executors, left.first(count), [&](std::span<const WindowRow> rows) {
      std::vector<int32_t> targets;
      for (const WindowRow& row : rows) targets.push_back(row.target);
      const std::vector<TokenScore> scores = executor.score(targets);
      for (size_t i = 0; i < rows.size(); ++i) {
        if (targets[i] < 0) continue;
        sum -= scores[i].logprob;
        ++tokens;
      }
      return true;
    });
    done += count;
  }
  return sum / static_cast<double>(tokens);
}

}  // namespace

TEST_CASE("rows are scored on the GPU as the CPU scores the same logits", "[small][cublas]") {
  const int64_t vocab = GENERATE(300, 301);  // loads of four numbers, and of one
  const Model model = random_llama(bf16_shape(vocab));
  const auto executor = cuda::make_executor(model, {.scores = true}, 0, switches());
  const Text text(*executor, 40, 3, vocab);
  std::vector<int32_t> targets = random_tokens(40, 4, vocab);
  const std::vector<TokenScore> scores = executor->score(targets);
  const std::vector<TokenScore> expected = executor->Executor::score(targets);
  REQUIRE(scores.size() == 40);
  for (size_t i = 0; i < 40; ++i) check_same(scores[i], expected[i]);
}

TEST_CASE("rows without a target are left out, and logits() is right before and after") {
  RandomLlama shape = bf16_shape(3001);
  shape.context = 1024;
  const Model model = random_llama(shape);
  const auto executor = cuda::make_executor(model, {.rows = 1024, .scores = true}, 0, switches());
  const Text text(*executor, 1000, 5, 3001);  // enough rows for two parts
  std::vector<int32_t> targets = random_tokens(1000, 6, 3001);
  for (size_t i = 0; i < 1000; i += 3) targets[i] = -1;
  const auto row = executor->logits(777);
  const std::vector<float> logits(row.begin(), row.end());
  const std::vector<TokenScore> scores = executor->score(targets);
  const auto again = executor->logits(777);
  CHECK(std::vector<float>(again.begin(), again.end()) == logits);
  REQUIRE(scores.size() == 1000);
  for (size_t i = 0; i < 1000; ++i) {
    if (targets[i] < 0) {
      REQUIRE(scores[i].top == -1);
      continue;
    }
    // The product may have other rows beside this one and so another kernel: the numbers are the
    // same, the bits need not be.
    const TokenScore expected = score_row(executor->logits(static_cast<int64_t>(i)), targets[i]);
    REQUIRE(std::fabs(scores[i].logprob - expected.logprob) <= 1e-4);
    REQUIRE(std::fabs(scores[i].entropy - expected.entropy) <= 1e-4);
  }
}

TEST_CASE("a decode step's rows are scored from the logits that its graph made") {
  const Model model = random_llama(bf16_shape(300));
  const auto executor = cuda::make_executor(model, {.sequences = 5}, 0, switches());
  std::vector<Sequence> sequences;
  for (int i = 0; i < 5; ++i) sequences.push_back(executor->new_sequence());
  for (uint64_t at = 0; at < 4; ++at) {
    const std::vector<int32_t> ids = random_tokens(5, 10 + at);
    std::vector<SeqRows> step;
    for (size_t i = 0; i < 5; ++i) {
      step.push_back({&sequences[i], std::span(ids).subspan(i, 1), Want::LastRow});
    }
    REQUIRE(executor->run(step) == 5);
    std::vector<int32_t> targets = random_tokens(5, 20 + at);
    targets[1] = -1;
    const std::vector<TokenScore> scores = executor->score(targets);
    for (size_t i = 0; i < 5; ++i) {
      if (i == 1) continue;
      check_same(scores[i], score_row(executor->logits(static_cast<int64_t>(i)), targets[i]));
    }
  }
}

TEST_CASE("ln(perplexity) on the GPU is that on the CPU to a thousandth") {
  const char* const name = GENERATE("llama3-gqa-tied-ropescale", "llama3-long-3000");
  const std::filesystem::path folder = find_golden(name);
  if (folder.empty()) return;
  const OpenedModel opened = open_model(folder);
  const int64_t vocab = opened.model.config.vocab;
  const std::vector<int32_t> ids = random_tokens(2048, 8, vocab);
  RunOptions options;
  options.context = 128;
  options.sequences = 8;
  options.rows = 1000;
  options.scores = true;
  const auto gpu = cuda::make_executor(opened.model, options, 0, switches());
  const double expected = mean_nll(*cpu::make_executor(opened.model, options), ids, 128);
  const double found = mean_nll(*gpu, ids, 128);
  std::printf("%s: ln(perplexity) %.6f on the CPU, %+.1e on the GPU\n", name, expected,
              found - expected);
  CHECK(std::fabs(found - expected) <= 1e-3);
  // Windows that take several steps.
  options.rows = 50;
  options.sequences = 1;
  const auto slow = cuda::make_executor(opened.model, options, 0, switches());
  CHECK(std::fabs(mean_nll(*slow, ids, 128) - expected) <= 1e-3);
}

TEST_CASE("two models are compared on the GPU as their logits on the host are", "[small][cublas]") {
  const int64_t vocab = GENERATE(300, 301);
  RandomLlama shape = bf16_shape(vocab);
  const Model model = random_llama(shape);
  shape.seed = 2;
  shape.layers = 1;
  const Model other = random_llama(shape);
  const RunOptions options = {.rows = 64, .scores = true};
  const auto a = cuda::make_executor(model, options, 0, switches());
  const auto b = cuda::make_executor(other, options, 0, switches());
  const auto same = cuda::make_executor(model, options, 0, switches());
  const Text text(*a, 50, 3, vocab), text_b(*b, 50, 3, vocab), text_same(*same, 50, 3, vocab);
  std::vector<int32_t> targets = random_tokens(50, 4, vocab);
  const std::vector<RowComparison> found = a->compare(*b, targets);
  const std::vector<RowComparison> expected = a->Executor::compare(*b, targets);
  REQUIRE(found.size() == 50);
  double divergence = 0;
  for (size_t i = 0; i < 50; ++i) {
    check_same(found[i].score, expected[i].score);
    check_same(found[i].base, expected[i].base);
    REQUIRE(std::fabs(found[i].divergence - expected[i].divergence) <= 1e-11);
    divergence += found[i].divergence;
  }
  CHECK(divergence > 1);
  for (const RowComparison& row : a->compare(*same, targets)) REQUIRE(row.divergence == 0);
  targets[7] = -1;
  CHECK(a->compare(*b, targets)[7].score.top == -1);
}

TEST_CASE("a model on the GPU can be compared with one on the CPU") {
  const Model model = random_llama(bf16_shape(300));
  const auto gpu = cuda::make_executor(model, {}, 0, switches());
  const auto cpu = cpu::make_executor(model, {});
  const Text text(*gpu, 20, 3, 300), text_cpu(*cpu, 20, 3, 300);
  for (const RowComparison& row : gpu->compare(*cpu, random_tokens(20, 4))) {
    REQUIRE(row.divergence >= -1e-12);
    REQUIRE(row.divergence <= 1e-3);
  }
}

TEST_CASE("rows that hold NaN say so, and no other sequence of the step does") {
  const Model model = random_llama(bf16_shape(300));
  const Program program = model.program();
  const TensorView embedding = program.weight(std::get<Embed>(program.ops.front()).weight).view;
  constexpr int32_t kBroken = 17;
  auto* row = const_cast<std::byte*>(embedding.row(kBroken));  // the memory is MadeWeights' own
  reinterpret_cast<uint16_t*>(row)[3] = 0x7fc0;
  const auto executor = cuda::make_executor(model, {.sequences = 2}, 0, switches());
  std::vector<int32_t> ids = random_tokens(60, 3);
  std::replace(ids.begin(), ids.end(), kBroken, kBroken + 1);
  ids[42] = kBroken;
  Sequence first = executor->new_sequence(), second = executor->new_sequence();
  const SeqRows rows[] = {{&first, std::span(ids).first(30), Want::EveryRow},
                          {&second, std::span(ids).last(30), Want::EveryRow}};
  executor->run(rows);
  const std::vector<TokenScore> scores = executor->score(random_tokens(60, 4));
  for (size_t i = 0; i < 30; ++i) REQUIRE(std::isfinite(scores[i].logprob));
  for (size_t i = 42; i < 60; ++i) {
    REQUIRE(std::isnan(scores[i].logprob));
    REQUIRE(scores[i].top < 0);
  }
}

}  // namespace skald::test
