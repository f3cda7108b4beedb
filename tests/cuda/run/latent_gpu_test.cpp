// Attention to latents on the GPU, in the size that models have: heads of 576 dimensions, whose
// keys serve as values.
#include "cuda/cuda.h"
#include "engine/cpu/executor.h"
#include "tests/catch.h"
#include "tests/cuda/kernels/relative_error.h"
#include "tests/cuda/kernels/switches.h"
#include "tests/engine/random_llama.h"

namespace skald::test {
namespace {

constexpr int kLatentHeads = 5;

Model latent_model(DType type, bool grows) {
  constexpr int64_t kDim = 64, kFfn = 96, kVocab = 200;
  ModelConfig c;
  c.latent = {.rank = 512, .query_rank = 0, .rope_dim = 64, .key_dim = 32, .value_dim = 48};
  const LatentConfig& l = c.latent;
  auto weights = std::make_shared<MadeWeights>(3);
  weights->matrix("token_embd.weight", type, kVocab, kDim);
  c.layers = 2;
  for (int layer = 0; layer < c.layers; ++layer) {
    const std::string block = "blk." + std::to_string(layer) + ".";
    for (const char* norm : {"attn_norm", "ffn_norm"}) {
      weights->constant(block + norm + ".weight", kDim);
    }
    weights->constant(block + "attn_kv_a_norm.weight", l.rank);
    weights->matrix(block + "attn_q.weight", type, kLatentHeads * (l.key_dim + l.rope_dim), kDim);
    weights->matrix(block + "attn_kv_a_mqa.weight", type, l.rank + l.rope_dim, kDim);
    weights->matrix(block + "attn_k_b.weight", type, kLatentHeads * l.rank, l.key_dim);
    weights->matrix(block + "attn_v_b.weight", type, kLatentHeads * l.value_dim, l.rank);
    weights->matrix(block + "attn_output.weight", type, kDim, kLatentHeads * l.value_dim);
    weights->matrix(block + "ffn_gate.weight", type, kFfn, kDim);
    weights->matrix(block + "ffn_up.weight", type, kFfn, kDim);
    weights->matrix(block + "ffn_down.weight", type, kDim, kFfn);
  }
  weights->constant("output_norm.weight", kDim);
  weights->matrix("output.weight", type, kVocab, kDim);
  c.architecture = "deepseek2";
  c.dim = kDim;
  c.ffn_dim = kFfn;
  c.heads = kLatentHeads;
  c.kv_heads = 1;
  c.head_dim = l.rank + l.rope_dim;
  c.vocab = kVocab;
  c.context = 512;
  c.attention_scale = 1 / std::sqrt(static_cast<float>(l.key_dim + l.rope_dim));
  c.rope.inv_freq = rope_frequencies(10000, l.rope_dim, {});
  c.rope.interleaved = true;
  if (grows) c.query_growth = {0.3f, 16};
  return {c, weights, kDeepSeek.build};
}

// Logits of two prompts in one step, of decode steps, and of a step with a few rows.
std::vector<float> latent_logits(Executor& executor) {
  std::vector<float> all;
  Sequence first = executor.new_sequence(), second = executor.new_sequence();
  const auto a = random_tokens(150, 1, 200), b = random_tokens(70, 2, 200);
  const auto few = random_tokens(5, 3, 200), one = random_tokens(1, 4, 200);
  const auto run = [&](std::initializer_list<SeqRows> step) {
    const int64_t wanted = executor.run({step.begin(), step.size()});
    for (int64_t row = 0; row < wanted; ++row) {
      const auto logits = executor.logits(row);
      all.insert(all.end(), logits.begin(), logits.end());
    }
  };
  run({{&first, a, Want::EveryRow}, {&second, b, Want::LastRow}});
  for (int i = 0; i < 3; ++i) run({{&first, one, Want::LastRow}, {&second, one, Want::LastRow}});
  for (int i = 0; i < 2; ++i) run({{&first, few, Want::EveryRow}});
  for (int i = 0; i < 3; ++i) run({{&second, one, Want::LastRow}});
  return all;
}

}  // namespace

TEST_CASE("attention to latents of 576 dimensions on the GPU is the CPU's") {
  const DType type = GENERATE(DType::F32, DType::F16, DType::BF16);
  const bool grows = GENERATE(false, true);
  const int limit = GENERATE(0, 80, 75);
  CAPTURE(name(type), grows, limit);
  const Model model = latent_model(type, grows);
  RunOptions options;
  options.sequences = 2;
  options.exact = true;
  const auto cpu = cpu::make_executor(model, options, cpu::KernelSet::Reference);
  options.exact = false;
  options.arch_limit = limit;
  const auto gpu = cuda::make_executor(model, options, 0, switches());
  const auto expected = latent_logits(*cpu), got = latent_logits(*gpu);
  REQUIRE(got.size() == expected.size());
  const double unit = type == DType::F32 ? 0x1p-20 : type == DType::F16 ? 0x1p-11 : 0x1p-8;
  CHECK(relative_error(got, expected) <= 8 * unit);
}

}  // namespace skald::test
