// Checks how the CUDA planner finds short convolutions between gates. Needs no GPU.
#include "models/open.h"
#include "tests/catch.h"
#include "tests/cuda/plan/plans.h"
#include "tests/engine/random_llama.h"
#include "tests/golden.h"

namespace skald::test {

TEST_CASE("a short convolution is one product and one op") {
  MadeWeights file;
  constexpr int kDim = 32, kTaps = 3;
  ProgramBuilder b{file};
  const ActId x = b.act("x", kDim), h = b.act("h", kDim);
  const ActId before = b.act("before", kDim), after = b.act("after", kDim);
  const ActId in = b.act("in", kDim), out = b.act("out", kDim);
  file.matrix("rows", DType::F32, kDim, kDim);
  file.matrix("norm", DType::F32, 1, kDim);
  file.matrix("thirds", DType::F32, 3 * kDim, kDim);
  file.matrix("taps", DType::F32, kDim, kTaps);
  const WeightId rows = b.weight("rows", kDim, kDim);
  b.add(Embed{x, rows});
  b.add(Norm{h, x, b.weight("norm", 1, kDim), 1e-5f});
  int64_t first = 0;
  for (const ActId third : {after, in, before}) {  // in any order
    b.add(Linear{third, h, b.weight_rows("thirds", 3 * kDim, kDim, first, kDim), WeightId::None});
    first += kDim;
  }
  b.add(GatedAct{in, before, in, Activation::Identity});
  b.add(CausalConv{out, in, b.weight("taps", kDim, kTaps), kTaps, b.state({(kTaps - 1) * kDim}),
                   Activation::Identity});
  b.add(GatedAct{out, after, out, Activation::Identity});
  b.add(Linear{h, out, rows, WeightId::None});
  b.add(Add{x, h});
  b.add(Norm{h, x, b.weight("norm", 1, kDim), 1e-5f});
  b.add(Logits{h, rows});
  Program program = std::move(b).finish();
  CHECK(fused_text(program) == "embed norm+linear short_conv linear norm+linear");
  const cuda::FusedProgram fused = cuda::fuse_program(std::move(program));
  const auto convs = ops_of<cuda::FusedShortConv>(fused);
  REQUIRE(convs.size() == 1);
  CHECK(convs[0].columns == cuda::ShortConvColumns{2 * kDim, 0, kDim});
  CHECK(fused.cols(convs[0].in) == 3 * kDim);
  cuda::SizeOptions options;
  options.rows = 4;
  options.context = 64;
  options.sequences = 2;
  const cuda::Sizes sizes(fused, options);
  CHECK(sizes.slots == 2);
  CHECK(sizes.slot_floats >= kTaps * kDim);
}

TEST_CASE("the layers of LFM2 are short convolutions and attention") {
  if (!have_shared("goldens/lfm2")) return;
  const std::string text = fused_text(open_model(find_golden("lfm2")).model.program());
  CHECK(text.starts_with("embed norm+linear short_conv linear "));
  CHECK(text.find(" attention") != std::string::npos);
}

}  // namespace skald::test
