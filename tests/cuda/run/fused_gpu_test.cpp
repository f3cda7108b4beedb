// Fused ops on the GPU, compared with the CPU's reference, which runs one op after the other: every
// buffer that the GPU writes, after the op that writes it.
#include <algorithm>
#include <cmath>
#include <map>

#include "cuda/cuda.h"
#include "engine/base/error.h"
#include "engine/cpu/executor.h"
#include "tests/catch.h"
#include "tests/cuda/kernels/relative_error.h"
#include "tests/cuda/kernels/switches.h"
#include "tests/engine/random_llama.h"

namespace skald::test {
namespace {

// The outputs of each op, by step and op.
using Outputs = std::map<std::pair<size_t, size_t>, std::vector<float>>;

struct Rows {
  size_t sequence;
  int64_t tokens;
};

// A prompt; one token of it; two sequences together; one token of each; a long and a short part;
// one token.
const std::vector<std::vector<Rows>> kSteps = {
    {{0, 33}}, {{0, 1}}, {{0, 5}, {1, 31}}, {{0, 1}, {1, 1}}, {{1, 70}, {0, 1}}, {{1, 1}},
};

Outputs record(Executor& executor) {
  Outputs outputs;
  size_t step_number = 0;
  executor.observe([&](const OpOutput& output) {
    auto& values = outputs[{step_number, output.op}];
    values.insert(values.end(), output.values.begin(), output.values.end());
  });
  std::vector<Sequence> sequences;
  for (int i = 0; i < 2; ++i) sequences.push_back(executor.new_sequence());
  for (; step_number < kSteps.size(); ++step_number) {
    std::vector<std::vector<int32_t>> tokens;
    std::vector<SeqRows> step;
    for (const Rows& rows : kSteps[step_number]) {
      tokens.push_back(random_tokens(rows.tokens, 10 * step_number + rows.sequence));
    }
    for (size_t i = 0; i < tokens.size(); ++i) {
      step.push_back({&sequences[kSteps[step_number][i].sequence], tokens[i], Want::LastRow});
    }
    const int64_t wanted = executor.run(step);
    // Recorded here, because the CPU shows its observer several rows at once.
    std::vector<float> logits;
    for (int64_t row = 0; row < wanted; ++row) {
      const auto values = executor.logits(row);
      logits.insert(logits.end(), values.begin(), values.end());
    }
    outputs[{step_number, executor.program().ops.size() - 1}] = logits;
  }
  return outputs;
}

// `slack`: how many times larger errors may be than those of a plain model.
void compare(const RandomLlama& shape, const Model& model, double slack = 1) {
  RunOptions options;
  options.sequences = 2;
  options.exact = true;
  const auto cpu = cpu::make_executor(model, options, cpu::KernelSet::Reference);
  options.exact = false;
  const auto gpu = cuda::make_executor(model, options, 0, switches());
  const Outputs expected = record(*cpu), got = record(*gpu);
  // Each layer rounds its activations a few times, and the residual stream adds the layers up.
  const double unit = shape.type == DType::F32   ? 0x1p-20
                      : shape.type == DType::F16 ? 0x1p-11
                                                 : 0x1p-8;
  const double bound = slack * 4 * unit * std::sqrt(shape.layers);
  double largest = 0;
  for (const auto& [place, values] : got) {
    const auto& reference = expected.at(place);
    REQUIRE(values.size() == reference.size());
    const double error = relative_error(values, reference);
    largest = std::max(largest, error);
    INFO("step " << place.first << ", op " << place.second << ", "
                 << op_name(gpu->program().ops[place.second]));
    CHECK(error <= bound);
  }
  // Each layer shows the residual stream twice, attention, and the gated activation, which experts
  // do not show; and there are the embedding and the logits.
  const int each = shape.experts.count > 0 ? 3 : 4;
  CHECK(got.size() >= kSteps.size() * static_cast<size_t>(2 + each * shape.layers));
  std::printf("%s, heads of %d, window %d: largest error of a buffer %.1e, bound %.1e\n",
              std::string(name(shape.type)).c_str(), shape.head_dim, shape.window, largest, bound);
}

void compare(const RandomLlama& shape) { compare(shape, random_llama(shape)); }

RandomLlama shape_of(DType type, const Family& family, QkNorm qk_norm) {
  RandomLlama shape;
  shape.type = type;
  shape.head_dim = 128;
  shape.family = &family;
  shape.qk_norm = qk_norm;
  return shape;
}

}  // namespace

TEST_CASE("fused ops write what the single ops write") {
  RandomLlama shape;
  shape.type = GENERATE(DType::F32, DType::F16, DType::BF16);
  shape.head_dim = GENERATE(64, 80, 128);
  shape.window = GENERATE(0, 20);
  compare(shape);
}

TEST_CASE("fused ops write what the single ops write at awkward sizes") {
  RandomLlama shape;
  shape.type = GENERATE(DType::F32, DType::F16, DType::BF16);
  shape.dim = 100, shape.ffn_dim = 172, shape.vocab = 301, shape.head_dim = 50;
  shape.heads = 6, shape.kv_heads = 3, shape.layers = 3;
  compare(shape);
}

TEST_CASE(
    "fused ops of families with norms and caps of their own write what ops one by one write") {
  const DType type = GENERATE(DType::F32, DType::F16, DType::BF16);
  SECTION("norms of heads before they rotate") {
    RandomLlama shape = shape_of(type, kLlama, QkNorm::Heads);
    shape.head_dim = GENERATE(64, 128, 256);
    Model model = random_llama(shape);
    model.config.norm_plus = 1;
    model.config.rope.scale = 1.25f;
    compare(shape, model);
  }
  SECTION("norms of heads after they rotate") {
    RandomLlama shape = shape_of(type, kLlama, QkNorm::Heads);
    shape.head_dim = GENERATE(64, 128);
    Model model = random_llama(shape);
    model.config.norm_plus = 1;
    model.config.norm_after_rope = true;
    model.config.rope.interleaved = GENERATE(false, true);
    compare(shape, model);
  }
  SECTION("queries that grow with their position") {
    RandomLlama shape = shape_of(type, kLlama, GENERATE(QkNorm::None, QkNorm::Heads));
    shape.head_dim = GENERATE(64, 128);
    Model model = random_llama(shape);
    model.config.norm_plus = 1;
    model.config.query_growth = {0.3f, 5};
    // Growth makes the last queries about twice as large, and so the scores and their rounding
    // errors too.
    compare(shape, model, 4);
  }
  SECTION("norms before and after each half of a layer, caps, windows in every other layer") {
    RandomLlama shape = shape_of(type, kGemma2, QkNorm::None);
    shape.head_dim = GENERATE(128, 256);
    Model model = random_llama(shape);
    ModelConfig& c = model.config;
    c.norm_plus = 1;
    c.embedding_scale = 16;
    c.activation = Activation::GeluTanh;
    c.attention_softcap = 3;
    c.logit_softcap = 5;
    c.windows = {20, 0};
    c.window_rope.inv_freq = rope_frequencies(1000, shape.head_dim, {});
    compare(shape, model);
  }
  SECTION("norms after each half of a layer, and of all queries together") {
    const RandomLlama shape = shape_of(type, kOlmo2, QkNorm::Whole);
    Model model = random_llama(shape);
    model.config.norm_plus = 1;
    compare(shape, model);
  }
  SECTION("attention and feed-forward side by side, which read one norm") {
    const RandomLlama shape = shape_of(type, kCohere2, QkNorm::None);
    Model model = random_llama(shape);
    ModelConfig& c = model.config;
    c.norm = GENERATE(NormKind::Layer, NormKind::Rms);
    c.norm_plus = 1;
    c.logit_scale = 0.25f;
    c.rope.interleaved = true;
    c.windows = {20, 0};
    c.unrotated = {false, true};
    compare(shape, model);
  }
  SECTION("a feed-forward without a gate") {
    const RandomLlama shape = shape_of(type, kLlama, QkNorm::None);
    Model model = random_llama(shape);
    model.config.norm = GENERATE(NormKind::Layer, NormKind::Rms);
    model.config.activation = GENERATE(Activation::GeluTanh, Activation::Silu);
    model.config.gated_mlp = false;
    compare(shape, model);
  }
  SECTION("a looped model, with and without a norm between two runs") {
    const RandomLlama shape = shape_of(type, kLlama, QkNorm::Heads);
    Model model = random_llama(shape);
    model.config.norm_plus = 1;
    model.config.loops = 2;
    model.config.loop_norm = GENERATE(true, false);
    compare(shape, model, 2);  // twice as many layers as the shape says
  }
  SECTION("scales of embeddings, residuals and logits, and a layer without rope") {
    const RandomLlama shape = shape_of(type, kLlama, QkNorm::None);
    Model model = random_llama(shape);
    ModelConfig& c = model.config;
    c.embedding_scale = 3.5f;
    c.residual_scale = 0.35f;
    c.logit_scale = 0.6f;
    c.attention_scale = 0.17f;
    c.unrotated = {true, false};
    compare(shape, model);
  }
}

// In 16 bits a router may choose other experts than in float32, so in 16 bits all experts are used.
TEST_CASE("routed experts write what the single ops write") {
  RandomLlama shape;
  shape.type = GENERATE(DType::F32, DType::F16, DType::BF16);
  const bool floats = shape.type == DType::F32;
  SECTION("sizes that fast kernels take") {
    shape.experts = {floats ? 8 : 3, floats ? 2 : 3, 224, true, {}};
  }
  SECTION("sizes that they do not take, in every other layer") {
    shape.dim = 100, shape.ffn_dim = 172, shape.head_dim = 50, shape.layers = 4;
    shape.experts = {floats ? 16 : 2, floats ? 3 : 2, 44, false, {true, false, true, false}};
  }
  SECTION("a shared expert with and without a gate") {
    shape.experts = {floats ? 8 : 3, floats ? 2 : 3, 96, true, {}, 288, GENERATE(true, false)};
  }
  SECTION("a shared expert of awkward sizes") {
    shape.dim = 100, shape.ffn_dim = 172, shape.head_dim = 50;
    shape.experts = {floats ? 16 : 2, floats ? 3 : 2, 44, false, {}, 31, true};
  }
  Model model = random_llama(shape);
  model.config.residual_scale = 0.7f;
  compare(shape, model);
}

}  // namespace skald::test
