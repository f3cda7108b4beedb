// The outputs of single ops of a Program agree with their formulas, on both kernel sets of the CPU.
// CUDA reports an op that it has no kernel for.
#include <cmath>

#include "cuda/plan/fused_program.h"
#include "engine/cpu/executor.h"
#include "tests/catch.h"
#include "tests/engine/random_llama.h"
#include "tests/error_text.h"

namespace skald::test {
namespace {

constexpr int kHeads = 3, kHeadDim = 20, kOpDim = kHeads * kHeadDim, kOpVocab = 33;
constexpr float kEps = 1e-5f;

// Builds a program of one op between an embedding and logits.
using AddOp = void (*)(ProgramBuilder&, ActId x);

template <AddOp adds>
Program build(const ModelConfig&, const WeightFile& file) {
  ProgramBuilder b(file);
  const ActId x = b.act("x", kOpDim);
  b.add(Embed{x, b.weight("embedding", kOpVocab, kOpDim)});
  adds(b, x);
  b.add(Logits{x, b.weight("head", kOpVocab, kOpDim)});
  return std::move(b).finish();
}

std::shared_ptr<MadeWeights> weights() {
  auto file = std::make_shared<MadeWeights>();
  file->matrix("embedding", DType::F32, kOpVocab, kOpDim);
  file->matrix("head", DType::F32, kOpVocab, kOpDim);
  file->matrix("norm", DType::F32, 1, kOpDim);
  file->matrix("bias", DType::F32, 1, kOpDim);
  file->matrix("head_norm", DType::F32, 1, kHeadDim);
  file->matrix("by_head", DType::F32, kHeads * 4, 8);
  return file;
}

Model model_of(Program (*build)(const ModelConfig&, const WeightFile&)) {
  ModelConfig c;
  c.architecture = "test";
  c.context = 64;
  return {c, weights(), build};
}

constexpr int32_t kTokens[] = {5, 0, 32, 7};

// The outputs of all ops; the last is that of the logits.
std::vector<std::vector<float>> outputs(const Model& model, cpu::KernelSet kernels) {
  const auto executor = cpu::make_executor(model, {.exact = true}, kernels);
  std::vector<std::vector<float>> all(executor->program().ops.size());
  executor->observe([&](const OpOutput& o) { all[o.op].assign(o.values.begin(), o.values.end()); });
  Sequence sequence = executor->new_sequence();
  const SeqRows step{&sequence, kTokens, Want::EveryRow};
  executor->run({&step, 1});
  executor->logits(0);
  return all;
}

std::vector<float> values_of(const Model& model, const std::string& name) {
  const TensorView& view = model.weights->find(name)->view;
  const float* values = reinterpret_cast<const float*>(view.data);
  return {values, values + view.rows * view.cols};
}

void check_near(float got, double expected) {
  if (!(std::abs(got - expected) <= 1e-6 * (1 + std::abs(expected)))) {
    FAIL(got << ", expected " << expected);
  }
}

// Checks that `out` has each group of weight.size() elements of `in` normalized and multiplied by
// plus + weight.
void check_normalized(const std::vector<float>& in, const std::vector<float>& weight,
                      const std::vector<float>& out, double plus = 1) {
  REQUIRE(out.size() == in.size());
  const size_t width = weight.size();
  for (size_t at = 0; at < in.size(); at += width) {
    double squares = 0;
    for (size_t i = 0; i < width; ++i) squares += double{in[at + i]} * in[at + i];
    const double scale = 1 / std::sqrt(squares / static_cast<double>(width) + kEps);
    for (size_t i = 0; i < width; ++i) {
      check_near(out[at + i], in[at + i] * scale * (plus + weight[i]));
    }
  }
}

void norm_heads(ProgramBuilder& b, ActId x) {
  b.add(HeadNorm{x, b.norm_weight("head_norm", kHeadDim, 1), kHeads, kHeadDim, kEps});
}
void norm_all(ProgramBuilder& b, ActId x) {
  b.add(Norm{x, x, b.norm_weight("norm", kOpDim, 1), kEps});
}
template <bool biased>
void norm_layer(ProgramBuilder& b, ActId x) {
  const WeightId bias = biased ? b.weight("bias", 1, kOpDim) : WeightId::None;
  b.add(Norm{x, x, b.weight("norm", 1, kOpDim), kEps, NormKind::Layer, bias});
}
template <Activation activation>
void activate(ProgramBuilder& b, ActId x) {
  b.add(Activate{x, x, activation});
}
void gate_rows(ProgramBuilder& b, ActId x) {
  const ActId wide = b.act("wide", kOpVocab);
  b.add(Linear{wide, x, b.weight("head", kOpVocab, kOpDim), WeightId::None});
  b.add(RowGate{wide, x, b.weight("bias", 1, kOpDim)});
}
void add_scaled(ProgramBuilder& b, ActId x) { b.add(Add{x, x, 0.25f}); }
void norm_without_weights(ProgramBuilder& b, ActId x) {
  const ActId all = b.act("all", kOpDim), heads = b.act("heads", kOpDim);
  b.add(Norm{all, x, WeightId::None, kEps});
  b.add(HeadPart{heads, x, 1, kOpDim});
  b.add(HeadNorm{heads, WeightId::None, kHeads, kHeadDim, kEps});
}
void mix(ProgramBuilder& b, ActId x) {
  const ActId y = b.act("y", kOpDim), product = b.act("product", kOpDim);
  b.add(Norm{y, x, b.weight("norm", 1, kOpDim), kEps});
  b.add(GatedAct{product, x, y, Activation::Identity});
  b.add(Add{x, y, 0.5f, -3});
}
// Attention that appends, and attention of other queries that reads the same keys and values.
template <bool appends>
void attend_again(ProgramBuilder& b, ActId x) {
  const ActId first = b.act("first", kOpDim), q = b.act("q", kOpDim),
              again = b.act("again", kOpDim);
  const AttentionSpec spec{kHeads, kHeads, kHeadDim, 0.5f};
  const int layer = b.kv_layer({kHeads, kHeadDim});
  b.add(Attention{first, x, x, x, layer, spec});
  b.add(Norm{q, x, b.weight("norm", 1, kOpDim), kEps});
  Attention op{again, q, q, q, appends ? b.kv_layer({kHeads, kHeadDim}) : layer, spec};
  op.appends = appends;
  if (appends) op.k = op.v = x;
  b.add(op);
}
// Heads of 6 columns: two are copied, four are a product.
void multiply_heads(ProgramBuilder& b, ActId x) {
  const ActId y = b.act("y", kHeads * 6);
  b.add(HeadPart{y, x, kHeads, 2, 3, 0, 6});
  b.add(Linear{y, x, b.weight("by_head", kHeads * 4, 8), WeightId::None, kHeads, 5, 2});
}
void rotate_scaled(ProgramBuilder& b, ActId x) {
  RopeSpec spec;
  spec.inv_freq = {1, 0.1f, 0.01f};
  spec.scale = 1.5f;
  b.add(Rope{x, kHeads, kHeadDim, b.rope(spec)});
}

}  // namespace

TEST_CASE("HeadNorm normalizes each head and multiplies by 1 + weight") {
  const auto kernels = GENERATE(cpu::KernelSet::Fast, cpu::KernelSet::Reference);
  const Model model = model_of(build<norm_heads>);
  const auto all = outputs(model, kernels);
  REQUIRE(all[0].size() == std::size(kTokens) * kOpDim);
  check_normalized(all[0], values_of(model, "head_norm"), all[1]);
}

TEST_CASE("an RmsNorm in place normalizes whole rows and multiplies by 1 + weight") {
  const auto kernels = GENERATE(cpu::KernelSet::Fast, cpu::KernelSet::Reference);
  const Model model = model_of(build<norm_all>);
  const auto all = outputs(model, kernels);
  REQUIRE(all[0].size() == std::size(kTokens) * kOpDim);
  check_normalized(all[0], values_of(model, "norm"), all[1]);
}

TEST_CASE("a layer norm takes a row's mean from it and divides it by its deviation") {
  const auto kernels = GENERATE(cpu::KernelSet::Fast, cpu::KernelSet::Reference);
  const bool biased = GENERATE(false, true);
  const Model model = model_of(biased ? build<norm_layer<true>> : build<norm_layer<false>>);
  const auto all = outputs(model, kernels);
  const std::vector<float> weight = values_of(model, "norm"), bias = values_of(model, "bias");
  for (size_t row = 0; row < all[1].size(); row += kOpDim) {
    double mean = 0, squares = 0;
    for (size_t i = 0; i < kOpDim; ++i) mean += double{all[0][row + i]} / kOpDim;
    for (size_t i = 0; i < kOpDim; ++i) squares += std::pow(all[0][row + i] - mean, 2);
    const double scale = 1 / std::sqrt(squares / kOpDim + kEps);
    for (size_t i = 0; i < kOpDim; ++i) {
      const double normed = (all[0][row + i] - mean) * scale * weight[i];
      check_near(all[1][row + i], normed + (biased ? bias[i] : 0));
    }
  }
  CHECK(op_name(model.program().ops[1]) == "layer_norm");
}

TEST_CASE("Activate applies its function to every number") {
  const auto kernels = GENERATE(cpu::KernelSet::Fast, cpu::KernelSet::Reference);
  const auto silu = outputs(model_of(build<activate<Activation::Silu>>), kernels);
  const auto gelu = outputs(model_of(build<activate<Activation::GeluTanh>>), kernels);
  REQUIRE(silu[1].size() == std::size(kTokens) * kOpDim);
  for (size_t i = 0; i < silu[1].size(); ++i) {
    const double x = silu[0][i];
    check_near(silu[1][i], x / (1 + std::exp(-x)));
    const double inner = std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x);
    check_near(gelu[1][i], 0.5 * x * (1 + std::tanh(inner)));
  }
}

TEST_CASE("RowGate multiplies each row by the sigmoid of another row's dot product") {
  const auto kernels = GENERATE(cpu::KernelSet::Fast, cpu::KernelSet::Reference);
  const Model model = model_of(build<gate_rows>);
  const auto all = outputs(model, kernels);
  const std::vector<float> weight = values_of(model, "bias");
  REQUIRE(all[2].size() == std::size(kTokens) * kOpVocab);
  for (size_t row = 0; row < std::size(kTokens); ++row) {
    double dot = 0;
    for (size_t i = 0; i < kOpDim; ++i) dot += double{weight[i]} * all[0][row * kOpDim + i];
    CHECK(std::abs(dot) > 1e-3);
    for (size_t i = row * kOpVocab; i < (row + 1) * kOpVocab; ++i) {
      check_near(all[2][i], all[1][i] / (1 + std::exp(-dot)));
    }
  }
  const int64_t head = model.weights->find("head")->view.bytes();
  CHECK(model.program().weight_bytes() == kOpDim * 4 + 2 * head + kOpDim * 4);
}

TEST_CASE("Embed, Add and Logits scale, and Logits caps") {
  const auto kernels = GENERATE(cpu::KernelSet::Fast, cpu::KernelSet::Reference);
  const auto plain = outputs(model_of(build<add_scaled>), kernels);
  for (size_t i = 0; i < plain[0].size(); ++i) check_near(plain[1][i], 1.25 * plain[0][i]);

  const Model model = model_of([](const ModelConfig&, const WeightFile& file) {
    ProgramBuilder b(file);
    const ActId x = b.act("x", kOpDim);
    b.add(Embed{x, b.weight("embedding", kOpVocab, kOpDim), 1.25f});
    b.add(Logits{x, b.weight("head", kOpVocab, kOpDim), 0.5f, 0.75f});
    return std::move(b).finish();
  });
  const auto scaled = outputs(model, kernels);
  CHECK(scaled[0] == plain[1]);
  for (size_t i = 0; i < plain[2].size(); ++i) {
    check_near(scaled[1][i], 0.75 * std::tanh(0.5 * plain[2][i] / 0.75));
  }
}

TEST_CASE("norms without weights multiply by nothing") {
  const auto kernels = GENERATE(cpu::KernelSet::Fast, cpu::KernelSet::Reference);
  const Model model = model_of(build<norm_without_weights>);
  const auto all = outputs(model, kernels);
  check_normalized(all[0], std::vector<float>(kOpDim), all[1]);
  check_normalized(all[0], std::vector<float>(kHeadDim), all[3]);
  const int64_t head = model.weights->find("head")->view.bytes();
  CHECK(model.program().weight_bytes() == kOpDim * 4 + head);
}

TEST_CASE("Add scales both terms, and GatedAct without an activation is a product") {
  const auto kernels = GENERATE(cpu::KernelSet::Fast, cpu::KernelSet::Reference);
  const auto all = outputs(model_of(build<mix>), kernels);
  for (size_t i = 0; i < all[0].size(); ++i) {
    check_near(all[2][i], double{all[0][i]} * all[1][i]);
    check_near(all[3][i], -3.0 * all[0][i] + 0.5 * all[1][i]);
  }
}

TEST_CASE("a product by heads multiplies each head's columns by its own rows of the weight") {
  const auto kernels = GENERATE(cpu::KernelSet::Fast, cpu::KernelSet::Reference);
  const Model model = model_of(build<multiply_heads>);
  const auto all = outputs(model, kernels);
  const std::vector<float> weight = values_of(model, "by_head");
  REQUIRE(all[2].size() == std::size(kTokens) * kHeads * 6);
  for (size_t head = 0; head < std::size(kTokens) * kHeads; ++head) {
    const float *in = all[0].data() + head * kHeadDim, *out = all[2].data() + head * 6;
    CHECK((out[0] == in[3] && out[1] == in[4]));
    for (size_t o = 0; o < 4; ++o) {
      double sum = 0;
      for (size_t i = 0; i < 8; ++i) {
        sum += double{weight[(head % kHeads * 4 + o) * 8 + i]} * in[5 + i];
      }
      check_near(out[2 + o], sum);
    }
  }
}

TEST_CASE("attention that does not append reads what an earlier op has appended") {
  const auto kernels = GENERATE(cpu::KernelSet::Fast, cpu::KernelSet::Reference);
  const Model shared = model_of(build<attend_again<false>>);
  const auto all = outputs(shared, kernels);
  CHECK(all[3] == outputs(model_of(build<attend_again<true>>), kernels)[3]);
  CHECK(all[3] != all[1]);
  const Program program = shared.program();
  CHECK(program.kv.size() == 1);
  CHECK(op_inputs(program.ops[1]).size() == 3);
  CHECK(op_inputs(program.ops[3]).size() == 1);
  // Decode: the keys and values of earlier steps are there too.
  const auto executor = cpu::make_executor(shared, {.exact = true}, kernels);
  std::vector<float> decoded;
  executor->observe([&](const OpOutput& o) {
    if (o.op == 3) decoded.insert(decoded.end(), o.values.begin(), o.values.end());
  });
  Sequence sequence = executor->new_sequence();
  for (const int32_t& token : kTokens) {
    const SeqRows step{&sequence, {&token, 1}, Want::Nothing};
    executor->run({&step, 1});
  }
  CHECK(decoded == all[3]);
}

TEST_CASE("Rope's scale applies to the rotated dimensions alone") {
  const auto kernels = GENERATE(cpu::KernelSet::Fast, cpu::KernelSet::Reference);
  const auto all = outputs(model_of(build<rotate_scaled>), kernels);
  for (size_t row = 0; row < std::size(kTokens); ++row) {
    for (size_t h = 0; h < kHeads; ++h) {
      const float* in = &all[0][(row * kHeads + h) * kHeadDim];
      const float* out = &all[1][(row * kHeads + h) * kHeadDim];
      for (size_t i = 0; i < 3; ++i) {
        const double angle = static_cast<double>(row) * std::pow(0.1, i);
        const double cos = 1.5 * std::cos(angle), sin = 1.5 * std::sin(angle);
        check_near(out[i], in[i] * cos - in[i + 3] * sin);
        check_near(out[i + 3], in[i + 3] * cos + in[i] * sin);
      }
      for (size_t i = 6; i < kHeadDim; ++i) CHECK(out[i] == in[i]);
    }
  }
}

TEST_CASE("the bytes read in a decode step count each chosen expert once") {
  const ExpertsConfig config = {8, 2, 512, true, {}};
  const Program program = random_llama({.experts = config}).program();
  const int64_t one = program.weight_bytes(), row = 256 * 4;  // of the embedding
  const int64_t expert = int64_t{3} * 512 * 256 * 4 * 2;      // in both layers
  // One row leaves out 3/4 of the 8 experts, and two rows leave out 9/16.
  CHECK(program.weight_bytes(2) == one + row + (8 * 7 - 2 * 16) * expert / 16);
  const int64_t all = one - 2 * expert + 8 * expert;
  CHECK(program.weight_bytes(1000) == all + 999 * row);
  const Program dense = random_llama({}).program();
  CHECK(dense.weight_bytes(7) == dense.weight_bytes() + 6 * row);
}

TEST_CASE("the bytes read in a decode step include a head norm's weight") {
  const Model model = model_of(build<norm_heads>);
  const int64_t head = model.weights->find("head")->view.bytes();
  CHECK(model.program().weight_bytes() == kOpDim * 4 + kHeadDim * 4 + head);
  CHECK(op_name(model.program().ops[1]) == "head_norm");
}

TEST_CASE("CUDA names an op that it has no kernel for") {
  const auto refusal = [](Program (*build)(const ModelConfig&, const WeightFile&)) {
    return error_text([&] { cuda::fuse_program(model_of(build).program()); }, Exit::Failed);
  };
  CHECK(refusal(build<norm_heads>) ==
        "CUDA has no kernel for op 1, head_norm, where it stands in this model; use --device cpu");
  CHECK(has(refusal(build<add_scaled>), "op 1, add, where it stands"));
  CHECK(has(refusal(build<activate<Activation::Silu>>), "op 1, activate, where it stands"));
  CHECK(has(refusal(build<rotate_scaled>), "op 1, rope, where it stands"));
  CHECK(has(refusal([](const ModelConfig&, const WeightFile& file) {
              ProgramBuilder b(file);
              const ActId x = b.act("x", kOpDim);
              b.add(Embed{x, b.weight("embedding", kOpVocab, kOpDim)});
              b.add(Logits{x, b.weight("head", kOpVocab, kOpDim)});
              return std::move(b).finish();
            }),
            "op 1, logits, where it stands"));
}

}  // namespace skald::test
