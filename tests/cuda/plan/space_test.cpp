// Checks how the CUDA planner finds state spaces. Needs no GPU.
#include "models/open.h"
#include "tests/catch.h"
#include "tests/cuda/plan/plans.h"
#include "tests/engine/random_llama.h"
#include "tests/error_text.h"
#include "tests/golden.h"
#include "tests/space_model.h"
#include "tests/temp_folder.h"

namespace skald::test {
namespace {

constexpr int kSpaceDim = 32, kSpaceTaps = 4;
constexpr SpaceSpec kSpace = {4, 32, 2, 64};

// An embedding, one layer with a state space, and logits. `norm_rows`: groups of the norm.
Program space_program(MadeWeights& file, int norm_rows = kSpace.groups) {
  ProgramBuilder b{file};
  const ActId x = b.act("x", kSpaceDim), h = b.act("h", kSpaceDim);
  const ActId gate = b.act("gate", kSpace.values()), mixed = b.act("mixed", kSpace.inputs());
  const ActId convolved = b.act("convolved", kSpace.inputs()), step = b.act("step", kSpace.heads);
  const ActId out = b.act("out", kSpace.values());
  file.matrix("rows", DType::BF16, kSpaceDim, kSpaceDim);
  file.matrix("norm", DType::F32, 1, kSpaceDim);
  const int64_t all = kSpace.values() + kSpace.inputs() + kSpace.heads;
  file.matrix("in", DType::BF16, all, kSpaceDim);
  file.matrix("taps", DType::F32, kSpace.inputs(), kSpaceTaps);
  file.matrix("taps_bias", DType::F32, 1, kSpace.inputs());
  for (const char* name : {"rate", "skip"}) file.matrix(name, DType::F32, kSpace.heads, 1);
  file.matrix("bias", DType::F32, 1, kSpace.heads);
  file.matrix("group_norm", DType::F32, norm_rows, kSpace.values() / norm_rows);
  file.matrix("down", DType::BF16, kSpaceDim, kSpace.values());
  const WeightId rows = b.weight("rows", kSpaceDim, kSpaceDim);
  b.add(Embed{x, rows});
  b.add(Norm{h, x, b.weight("norm", 1, kSpaceDim), 1e-5f});
  int64_t first = 0;
  for (const ActId part : {step, gate, mixed}) {  // in any order
    const int64_t cols = b.cols(part);
    b.add(Linear{part, h, b.weight_rows("in", all, kSpaceDim, first, cols), WeightId::None});
    first += cols;
  }
  CausalConv conv{convolved, mixed, b.weight("taps", kSpace.inputs(), kSpaceTaps), kSpaceTaps,
                  b.state({(kSpaceTaps - 1) * kSpace.inputs()})};
  conv.bias = b.weight("taps_bias", 1, kSpace.inputs());
  b.add(conv);
  StateSpace space = {out, convolved, step};
  space.rate = b.weight("rate", kSpace.heads, 1);
  space.bias = b.weight("bias", 1, kSpace.heads);
  space.skip = b.weight("skip", kSpace.heads, 1);
  space.spec = kSpace;
  space.state = b.state({kSpace.state_floats()});
  b.add(space);
  b.add(GatedAct{out, gate, out, Activation::Silu});
  b.add(HeadNorm{out, b.weight("group_norm", norm_rows, kSpace.values() / norm_rows), norm_rows,
                 static_cast<int>(kSpace.values() / norm_rows), 1e-5f});
  b.add(Linear{h, out, b.weight("down", kSpaceDim, kSpace.values()), WeightId::None});
  b.add(Add{x, h});
  b.add(Norm{h, x, b.weight("norm", 1, kSpaceDim), 1e-5f});
  b.add(Logits{h, rows});
  return std::move(b).finish();
}

}  // namespace

TEST_CASE("a state space is one product and one op") {
  MadeWeights file;
  Program program = space_program(file);
  CHECK(fused_text(program) == "embed norm+linear space linear norm+linear");
  const cuda::FusedProgram fused = cuda::fuse_program(std::move(program));
  const auto spaces = ops_of<cuda::FusedSpace>(fused);
  REQUIRE(spaces.size() == 1);
  const auto values = static_cast<int>(kSpace.values());
  CHECK(spaces[0].columns == cuda::SpaceColumns{4, 4 + values, 0});
  CHECK(cuda::supports_space(fused.shape(spaces[0])));
  cuda::SizeOptions options;
  options.rows = 4;
  options.context = 64;
  options.sequences = 2;
  const cuda::Sizes sizes(fused, options);
  CHECK(sizes.slots == 2);
  CHECK(sizes.slot_floats >= kSpaceTaps * kSpace.inputs() + kSpace.state_floats());
}

TEST_CASE("numbers of a convolution and of heads are float32 beside 16-bit matrices") {
  MadeWeights file;
  CHECK(cuda::fuse_program(space_program(file)).type == DType::BF16);
}

TEST_CASE("a state space whose norm has other groups than its keys has no kernel") {
  MadeWeights file;
  const Program program = space_program(file, 1);
  CHECK(has(error_text([&] { cuda::fuse_program(program); }), "CUDA has no kernel for op"));
}

TEST_CASE("CUDA has kernels for the goldens with state spaces") {
  for (const char* name : {"granite4-hybrid", "nemotron_h", "nemotron_h-moe"}) {
    CAPTURE(name);
    const std::filesystem::path folder = find_golden(name);
    if (folder.empty()) continue;
    const Program program = open_model(folder).model.program();
    CHECK(fused_text(program).find(" space ") != std::string::npos);
  }
}

}  // namespace skald::test
