// A setting of an op for which no CUDA kernel exists is refused in one line. Needs no GPU.
#include "cuda/plan/fused_program.h"
#include "engine/base/error.h"
#include "engine/program/adapters.h"
#include "tests/catch.h"
#include "tests/engine/random_llama.h"
#include "tests/error_text.h"

namespace skald::test {
namespace {

constexpr int kTwoDim = 32;

// A program of one op between an embedding and logits.
struct OneOp {
  explicit OneOp(int count = 4) : expert_count(count) {
    file.matrix("rows", DType::F32, kTwoDim, kTwoDim);
    file.matrix("scales", DType::F32, 1, count);
    file.matrix("router", DType::F32, count, kTwoDim);
    for (int e = 0; e < count; ++e) {
      file.matrix(concat("expert.", e), DType::F32, kTwoDim, kTwoDim);
    }
    x = b.act("x", kTwoDim), y = b.act("y", kTwoDim), z = b.act("z", kTwoDim);
    b.add(Embed{x, b.weight("rows", kTwoDim, kTwoDim)});
  }
  Experts experts() {
    Experts op{y, x, x};
    op.router = b.weight("router", expert_count, kTwoDim);
    op.gate = op.up = op.down = b.expert_weights(
        "stack", [](int e) { return concat("expert.", e); }, expert_count, kTwoDim, kTwoDim);
    op.spec = {expert_count, 2, true};
    return op;
  }
  std::string refusal(Op op) {
    b.add(std::move(op));
    b.add(Logits{x, b.weight("rows", kTwoDim, kTwoDim)});
    return error_text([&] { cuda::fuse_program(std::move(b).finish()); }, Exit::Failed);
  }

  int expert_count;
  MadeWeights file;
  ProgramBuilder b{file};
  ActId x, y, z;
};

}  // namespace

TEST_CASE("CUDA refuses what its kernels would ignore") {
  OneOp p;
  std::string expected = "CUDA has no kernel for op 1, ";
  std::string text;
  SECTION("a sum that scales both terms") {
    text = p.refusal(Add{p.x, p.y, 1, 0.5f});
    expected += "add that scales both terms, the second one not normed";
  }
  SECTION("a second embedding") {
    text = p.refusal(Embed{p.y, p.b.weight("rows", kTwoDim, kTwoDim)});
    expected += "embed, where it stands in this model";
  }
  SECTION("a product of two buffers") {
    text = p.refusal(GatedAct{p.y, p.x, p.y, Activation::Identity});
    expected += "gated_act without an activation";
  }
  SECTION("a convolution without an activation") {
    p.file.matrix("taps", DType::F32, kTwoDim, 3);
    CausalConv conv{p.y, p.x, p.b.weight("taps", kTwoDim, 3), 3, p.b.state({2 * kTwoDim})};
    conv.activation = Activation::Identity;
    text = p.refusal(conv);
    expected += "causal_conv without an activation or gates around it";
  }
  SECTION("a convolution whose gates are none of its own") {
    p.file.matrix("taps", DType::F32, kTwoDim, 3);
    CausalConv conv{p.y, p.x, p.b.weight("taps", kTwoDim, 3), 3, p.b.state({2 * kTwoDim})};
    conv.activation = Activation::Identity;
    p.b.add(GatedAct{p.z, p.x, p.z, Activation::Identity});
    p.b.add(conv);
    text = p.refusal(GatedAct{p.z, p.x, p.z, Activation::Identity});
    expected += "gated_act, where it stands in this model";
  }
  SECTION("a convolution with a bias that belongs to no state space") {
    p.file.matrix("taps", DType::F32, kTwoDim, 3);
    p.file.matrix("bias", DType::F32, 1, kTwoDim);
    CausalConv conv{p.y, p.x, p.b.weight("taps", kTwoDim, 3), 3, p.b.state({2 * kTwoDim})};
    conv.bias = p.b.weight("bias", 1, kTwoDim);
    text = p.refusal(conv);
    expected += "causal_conv, where it stands in this model";
  }
  SECTION("norms with weights of each head") {
    p.file.matrix("norms", DType::F32, 1, kTwoDim);
    text = p.refusal(HeadNorm{p.x, p.b.weight("norms", 1, kTwoDim), 2, kTwoDim / 2, 1e-5f});
    expected += "head_norm with weights of each head";
  }
  SECTION("squares that follow no product") {
    text = p.refusal(Activate{p.y, p.x, Activation::SquaredRelu});
    expected += "activate, where it stands in this model";
  }
  SECTION("experts without gates whose activation is none of squares") {
    Experts op = p.experts();
    op.gate = WeightId::None;
    text = p.refusal(op);
    expected += "experts without gates";
  }
  SECTION("a router that reads another buffer") {
    Experts op = p.experts();
    op.route = p.z;
    text = p.refusal(op);
    expected += "experts, where it stands in this model";
  }
  SECTION("a product by heads") {
    p.file.matrix("by_head", DType::F32, kTwoDim, kTwoDim / 2);
    const WeightId weight = p.b.weight("by_head", kTwoDim, kTwoDim / 2);
    text = p.refusal(Linear{p.y, p.x, weight, WeightId::None, 2});
    expected += "linear, where it stands in this model";
  }
  SECTION("a part of heads that are wider") {
    text = p.refusal(HeadPart{p.y, p.x, 2, 4, 0, 0, 8});
    expected += "head_part, where it stands in this model";
  }
  SECTION("groups of experts") {
    OneOp many(128);
    Experts op = many.experts();
    op.spec.gating = Gating::Sigmoid;
    op.spec.groups = 64;
    text = many.refusal(op);
    expected += "experts with more than 32 groups of experts";
  }
  CHECK(text == expected + "; use --device cpu");
}

TEST_CASE("CUDA refuses more experts than its router has room for") {
  OneOp p(1025);
  CHECK(p.refusal(p.experts()) ==
        "CUDA has no kernel for op 1, experts with more than 1024 experts; use --device cpu");
}

TEST_CASE("CUDA refuses a program with adapters") {
  OneOp p;
  p.b.add(Linear{p.y, p.x, p.b.weight("rows", kTwoDim, kTwoDim), WeightId::None});
  p.b.add(Logits{p.y, p.b.weight("rows", kTwoDim, kTwoDim)});
  const auto adapters = std::make_shared<Adapters>(1);
  AdapterMatrix matrix;
  matrix.tensor = "rows";
  matrix.rank = 1;
  matrix.down.resize(kTwoDim);
  matrix.up.resize(kTwoDim);
  adapters->front().matrices.push_back(std::move(matrix));
  const Program program = add_adapters(std::move(p.b).finish(), adapters);
  CHECK(error_text([&] { cuda::fuse_program(program); }, Exit::Failed) ==
        "CUDA has no kernel for op 2, delta of an adapter (--lora); use --device cpu");
}

}  // namespace skald::test
