// KV caches of codes on the GPU: decode reads codes of one type; everything else goes by way of a
// plain cache of one layer. The CPU computes the same with float32 between.
#include "engine/cpu/executor.h"
#include "tests/cuda/kernels/switches.h"
#include "tests/cuda/run/golden_gpu.h"
#include "tests/engine/random_llama.h"

namespace skald::test {
namespace {

struct TypesCase {
  CacheTypes types;
  double bound;  // of the mean divergence from the CPU
};
// A key or value in 16 bits that differs by a rounding may get the next code.
constexpr double kOfBytes = 1e-3, kOfNibbles = 2e-2;
constexpr TypesCase kCases[] = {{{CacheType::Q8_0, CacheType::Q8_0}, kOfBytes},
                                {{CacheType::FP8, CacheType::FP8}, kOfBytes},
                                {{CacheType::Q8_0, CacheType::FP8}, kOfBytes},
                                {{CacheType::Q8_0, CacheType::Q4_0}, kOfNibbles},
                                {{CacheType::Q4_0, CacheType::Q4_0}, kOfNibbles},
                                {{CacheType::F32, CacheType::F16}, kOfBytes}};

RunOptions with(const CacheTypes& types, bool exact) {
  RunOptions options;
  options.cache_types = {types.keys, types.values};
  options.exact = exact;
  options.sequences = 4;
  return options;
}

// The logits of all tokens. The first `prompt` tokens come in steps of `chunk`, the others one by
// one.
LogitRows run_steps(Executor& executor, std::span<const int32_t> ids, size_t prompt, size_t chunk) {
  LogitRows rows;
  Sequence sequence = executor.new_sequence();
  for (size_t at = 0; at < ids.size();) {
    const size_t count = at < prompt ? std::min(chunk, prompt - at) : 1;
    const SeqRows step{&sequence, ids.subspan(at, count), Want::EveryRow};
    for (std::vector<float>& row : run_rows(executor, {&step, 1})) rows.push_back(std::move(row));
    at += count;
  }
  return rows;
}

}  // namespace

TEST_CASE("a KV cache of codes has the CPU's results, for a prompt and token by token") {
  RandomLlama shape = {.heads = 8, .kv_heads = 2};
  shape.type = DType::BF16;
  shape.head_dim = GENERATE(64, 96, 128, 256);
  shape.window = GENERATE(0, 40);
  const Model model = random_llama(shape);
  const std::vector<int32_t> ids = random_tokens(170, 21);
  for (const auto& [types, bound] : kCases) {
    const LogitRows expected =
        run_steps(*cpu::make_executor(model, with(types, true)), ids, 130, 130);
    const auto executor = cuda::make_executor(model, with(types, false), 0, switches());
    for (const size_t chunk : {size_t{130}, size_t{70}, size_t{1}}) {
      const double found = mean_divergence(run_steps(*executor, ids, 130, chunk), expected);
      CAPTURE(to_text(types), shape.head_dim, shape.window, chunk, found);
      CHECK(found < bound);
    }
  }
}

TEST_CASE("a KV cache of codes works with activations in f16 and float32, and many query heads") {
  RandomLlama shape = {.heads = 12, .kv_heads = 1, .head_dim = 64};
  shape.type = GENERATE(DType::F16, DType::F32);
  const Model model = random_llama(shape);
  const std::vector<int32_t> ids = random_tokens(90, 22);
  for (const auto& [types, bound] : kCases) {
    const auto executor = cuda::make_executor(model, with(types, false), 0, switches());
    const LogitRows expected =
        run_steps(*cpu::make_executor(model, with(types, true)), ids, 60, 60);
    const double found = mean_divergence(run_steps(*executor, ids, 60, 60), expected);
    CAPTURE(to_text(types), name(shape.type), found);
    CHECK(found < bound);
  }
}

TEST_CASE("sequences of one step, and rows that are checked as guesses, share a cache of codes",
          "[small]") {
  RandomLlama shape = {.layers = 1, .heads = 4, .kv_heads = 2, .head_dim = 64};
  shape.type = DType::BF16;
  const CacheType type = GENERATE(CacheType::Q8_0, CacheType::Q4_0);
  const Model model = random_llama(shape);
  const std::vector<int32_t> ids = random_tokens(120, 23);
  const auto executor = cuda::make_executor(model, with({type, type}, false), 0, switches());
  const LogitRows alone = run_steps(*executor, ids, 80, 80);
  std::vector<Sequence> sequences;
  std::vector<LogitRows> rows(3);
  for (int i = 0; i < 3; ++i) sequences.push_back(executor->new_sequence());
  // A prompt, a few rows, and single rows; then all together.
  size_t at[3] = {};
  for (const std::vector<size_t>& counts :
       {std::vector<size_t>{80, 4, 1}, {1, 76, 79}, {1, 1, 1}, {3, 4, 2}, {1, 1, 1}}) {
    std::vector<SeqRows> step;
    for (size_t i = 0; i < 3; ++i) {
      step.push_back({&sequences[i], std::span(ids).subspan(at[i], counts[i]), Want::EveryRow});
      at[i] += counts[i];
    }
    const LogitRows all = run_rows(*executor, step);
    for (size_t i = 0, row = 0; i < 3; ++i) {
      for (size_t n = 0; n < counts[i]; ++n) rows[i].push_back(all[row++]);
    }
  }
  for (size_t i = 0; i < 3; ++i) {
    const LogitRows same(alone.begin(), alone.begin() + static_cast<std::ptrdiff_t>(at[i]));
    CAPTURE(name(type), i);
    CHECK(mean_divergence(rows[i], same) < 1e-3);
  }
}

}  // namespace skald::test
