// Speeds that no command shows, in the 8B shape in bf16 with random weights. Not part of a usual
// run: skald_gpu_tests "[.speed]".
#include <chrono>
#include <cstdio>

#include "cuda/cuda.h"
#include "engine/base/error.h"
#include "engine/perplexity/windows.h"
#include "models/random/random.h"
#include "tests/catch.h"
#include "tests/engine/random_llama.h"

namespace skald::test {
namespace {

const Model& large_model() {
  static const Model model = random_model("llama-3.1-8b", "bf16");
  return model;
}

std::unique_ptr<Executor> large_executor(bool reproducible) {
  RunOptions options;
  options.context = 2048;
  options.sequences = 32;
  options.rows = 8192;
  options.cache_tokens = 32768;
  options.scores = true;
  options.reproducible = reproducible;
  return cuda::make_executor(large_model(), options, 0);
}

// Tokens per second, the better of two runs.
double rate(int64_t tokens, const std::function<void()>& work) {
  work();
  double best = 0;
  for (int i = 0; i < 2; ++i) {
    const auto start = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
    best = std::max(best, static_cast<double>(tokens) / time.count());
  }
  return best;
}

double score_rate(Executor& executor, Executor* base) {
  std::vector<std::vector<int32_t>> texts;
  std::vector<TokenWindow> windows;
  for (uint64_t i = 0; i < 16; ++i) texts.push_back(random_tokens(512, i, 128256));
  for (const auto& text : texts) windows.push_back({text});
  std::vector<Executor*> executors{&executor};
  if (base) executors.push_back(base);
  return rate(16 * 512, [&] {
    run_windows(executors, windows, [&](std::span<const WindowRow> rows) {
      std::vector<int32_t> targets;
      for (const WindowRow& row : rows) targets.push_back(row.target);
      if (base) {
        executor.compare(*base, targets);
      } else {
        executor.score(targets);
      }
      return true;
    });
  });
}

double decode_rate(Executor& executor, size_t sequences) {
  std::vector<Sequence> all;
  std::vector<SeqRows> step;
  const std::vector<int32_t> ids = random_tokens(512, 3, 128256);
  for (size_t i = 0; i < sequences; ++i) all.push_back(executor.new_sequence());
  for (Sequence& sequence : all) {
    const SeqRows rows{&sequence, ids, Want::LastRow};
    executor.run({&rows, 1});
    step.push_back({&sequence, std::span(ids).first(1), Want::LastRow});
  }
  constexpr int kSteps = 20;
  return rate(static_cast<int64_t>(sequences) * kSteps, [&] {
    for (int i = 0; i < kSteps; ++i) {
      executor.run(step);
      executor.logits(0);
    }
  });
}

double prefill_rate(Executor& executor) {
  const std::vector<int32_t> ids = random_tokens(2048, 3, 128256);
  return rate(2048, [&] {
    Sequence sequence = executor.new_sequence();
    const SeqRows rows{&sequence, ids, Want::LastRow};
    executor.run({&rows, 1});
    executor.logits(0);
  });
}

}  // namespace

TEST_CASE("two models are compared at four tenths of the rate of one, or more", "[.speed]") {
  const auto model = large_executor(false), base = large_executor(false);
  const double one = score_rate(*model, nullptr), two = score_rate(*model, base.get());
  std::printf("scored %.0f tokens/s, compared %.0f: %.0f %%\n", one, two, 100 * two / one);
  CHECK(two >= 0.4 * one);
}

TEST_CASE("the cost of reproducible runs", "[.speed]") {
  const auto usual = large_executor(false), pinned = large_executor(true);
  const auto show = [](const char* what, double a, double b) {
    std::printf("%s: %.0f tokens/s, reproducible %.0f: %.0f %%\n", what, a, b, 100 * b / a);
    CHECK(b > 0.1 * a);
  };
  show("prefill 2048", prefill_rate(*usual), prefill_rate(*pinned));
  show("decode 1", decode_rate(*usual, 1), decode_rate(*pinned, 1));
  show("decode 8", decode_rate(*usual, 8), decode_rate(*pinned, 8));
  show("decode 32", decode_rate(*usual, 32), decode_rate(*pinned, 32));
}

TEST_CASE("decoding and prompts of a mixture of experts", "[.speed]") {
  const char* type = GENERATE("q4_k_m", "bf16");
  const auto start = std::chrono::steady_clock::now();
  const Model model = random_model("qwen3-30b-a3b", type);
  const auto made = std::chrono::steady_clock::now();
  RunOptions options;
  options.context = 2560;
  options.sequences = 32;
  options.rows = 2048;
  options.cache_tokens = 32768;
  const auto executor = cuda::make_executor(model, options, 0);
  const auto loaded = std::chrono::steady_clock::now();
  const auto seconds = [](auto time) { return std::chrono::duration<double>(time).count(); };
  const double bytes = static_cast<double>(model.program().weight_bytes());
  std::printf("%s: made in %.1f s, loaded in %.1f s; read bandwidth %.2f TB/s\n", type,
              seconds(made - start), seconds(loaded - made),
              cuda::measure_read_bandwidth(0) * 1e-12);
  std::printf("prefill of 2048: %.0f tokens/s\n", prefill_rate(*executor));
  for (const size_t sequences : {1, 8, 32}) {
    const double rate = decode_rate(*executor, sequences);
    std::printf("decode of %zu: %.0f tokens/s%s\n", sequences, rate,
                sequences > 1 ? "" : concat(", ", rate * bytes * 1e-12, " TB/s").c_str());
  }
}

}  // namespace skald::test
