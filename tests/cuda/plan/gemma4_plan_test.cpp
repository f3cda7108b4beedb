// How CUDA fuses Gemma 4's ops, and which kernels its shapes get. Needs no GPU.
#include <cmath>

#include "cuda/plan/plan_text.h"
#include "models/open.h"
#include "models/random/random.h"
#include "tests/catch.h"
#include "tests/cuda/plan/plans.h"
#include "tests/engine/random_llama.h"
#include "tests/error_text.h"
#include "tests/golden.h"

namespace skald::test {
namespace {

constexpr int kSmallDim = 64;

// Layers of attention: one that keeps keys and values, and others that read them.
struct SharingLayers {
  SharingLayers() {
    file.matrix("rows", DType::BF16, kSmallDim, kSmallDim);
    file.constant("norm", kSmallDim);
    x = b.act("x", kSmallDim), h = b.act("h", kSmallDim), t = b.act("t", kSmallDim);
    q = b.act("q", kSmallDim), k = b.act("k", kSmallDim), v = b.act("v", kSmallDim);
    b.add(Embed{x, rows()});
    layer = b.kv_layer({1, kSmallDim});
  }
  WeightId rows() { return b.weight("rows", kSmallDim, kSmallDim); }
  WeightId norm() { return b.weight("norm", 1, kSmallDim); }
  void attention(bool appends) {
    b.add(Norm{h, x, norm(), 1e-5f});
    b.add(Linear{q, h, rows(), WeightId::None});
    if (appends) {
      b.add(Linear{k, h, rows(), WeightId::None});
      b.add(Linear{v, h, rows(), WeightId::None});
    }
    b.add(HeadNorm{q, norm(), 1, kSmallDim, 1e-5f});
    if (appends) {
      b.add(HeadNorm{k, norm(), 1, kSmallDim, 1e-5f});
      b.add(HeadNorm{v, WeightId::None, 1, kSmallDim, value_eps});
    }
    Attention op{t, q, k, v, layer, {1, 1, kSmallDim}};
    op.appends = appends;
    b.add(op);
    b.add(Linear{h, t, rows(), WeightId::None});
    b.add(Add{x, h});
  }
  Program end() {
    b.add(Norm{h, x, norm(), 1e-5f});
    b.add(Logits{h, rows()});
    return std::move(b).finish();
  }

  MadeWeights file;
  ProgramBuilder b{file};
  ActId x, h, t, q, k, v;
  int layer = 0;
  float value_eps = 1e-5f;
};

}  // namespace

TEST_CASE("a dense layer of Gemma 4 is five fused ops") {
  const cuda::FusedProgram fused = cuda::fuse_program(shape_model("gemma-4-31b", "bf16").program());
  CHECK(fused.ops.size() == 1 + 60 * 5 + 1);
  const auto attention = ops_of<cuda::FusedAttention>(fused);
  REQUIRE(attention.size() == 60);
  for (const cuda::FusedAttention& op : attention) {
    const bool full = op.spec.window == 0;
    CHECK(op.spec.head_dim == (full ? 512 : 256));
    CHECK(op.values_are_keys == full);
    CHECK((op.v_norm && op.appends && op.norm && !op.norm->whole && op.rope));
    CHECK(fused.own_bound(op).value() >= std::sqrt(static_cast<float>(op.spec.head_dim)));
  }
  const auto linear = ops_of<cuda::FusedLinear>(fused);
  CHECK(linear.at(0).parts.size() == 3);      // q, k, v
  CHECK(linear.at(4 * 5).parts.size() == 2);  // layer 5 has no window: q, k
  CHECK(linear.back().softcap == 30);
  CHECK(fused.cols(fused.qkv) == (32 + 2 * 4) * 512);
}

TEST_CASE("heads of more than 256 dimensions get a kernel of their own, in decode too") {
  const Model model = shape_model("gemma-4-31b", "bf16");
  for (const int rows : {1, 8}) {
    const std::string text = kernels(model, rows);
    CHECK(has(text, "32 heads, 16 kv, x 256, window 1024: attention_decode\n"));
    CHECK(has(text, "32 heads, 4 kv, x 512: norm_rope_append + attention_wide\n"));
  }
  const std::string prompt = kernels(model, 512);
  CHECK(has(prompt, "x 256, window 1024: norm_rope_append + attention_prefill\n"));
  CHECK(has(prompt, "x 512: norm_rope_append + attention_wide\n"));
}

TEST_CASE("a layer's scale goes to the sum after its last norm") {
  const std::filesystem::path folder = find_golden("gemma4-dense");
  if (folder.empty()) return;
  const cuda::FusedProgram fused = cuda::fuse_program(open_model(folder).model.program());
  const auto linear = ops_of<cuda::FusedLinear>(fused);
  int scaled = 0;
  for (const cuda::FusedLinear& op : linear) {
    CHECK((op.keep == 1 || (op.post_norm && op.keep == op.scale)));
    scaled += op.keep != 1 ? 1 : 0;
  }
  CHECK(scaled == 6);
}

TEST_CASE("attention without products of keys and values reads those of an earlier layer") {
  SharingLayers p;
  p.attention(true);
  p.attention(false);
  const cuda::FusedProgram fused = cuda::fuse_program(p.end());
  const auto attention = ops_of<cuda::FusedAttention>(fused);
  REQUIRE(attention.size() == 2);
  CHECK((attention[0].appends && !attention[1].appends));
  CHECK((attention[0].v_norm && attention[1].v_norm));
  CHECK(attention[1].layer == attention[0].layer);
  CHECK(attention[1].norm->k == WeightId::None);
  const auto linear = ops_of<cuda::FusedLinear>(fused);
  CHECK(linear.at(0).parts.size() == 3);
  CHECK(linear.at(2).parts.size() == 1);
  CHECK(linear.at(2).out == fused.qkv);
  CHECK(cuda::launches_text(
            fused, cuda::plan_step(fused, {.bounds = cuda::assumed_bounds(fused)}, {.rows = 3}),
            5) == "norm_rope + attention_plain");
  // All products but q, k, v share the embedding. Norms: two before products, those of q and k in
  // the first layer, of q in the second, and the last one.
  const cuda::Sizes sizes(fused, {.rows = 8, .context = 64, .multiprocessors = 132});
  CHECK(sizes.placement.device == int64_t{kSmallDim} * kSmallDim * 2 * 4 + 6 * 256);
}

TEST_CASE("a norm of values that no kernel does with queries and keys is refused") {
  SharingLayers p;
  p.value_eps = 1e-6f;
  p.attention(true);
  CHECK(has(error_text([&] { cuda::fuse_program(p.end()); }, Exit::Failed),
            "CUDA has no kernel for op 5, head_norm, where it stands in this model"));
}

TEST_CASE("embeddings for each layer are gated parts of one float32 buffer") {
  const std::filesystem::path folder = find_golden("gemma4-ple");
  if (folder.empty()) return;
  const Program program = open_model(folder).model.program();
  std::string text = "embedembed linear";
  for (int layer = 0; layer < 9; ++layer) {
    text += " norm+linear attention linear norm+linear linear linear gated_part linear";
  }
  CHECK(fused_text(program) == text + " norm+linear");
  const cuda::FusedProgram fused = cuda::fuse_program(program);
  const auto linear = ops_of<cuda::FusedLinear>(fused);
  const ActId layers = ops_of<Embed>(fused).at(1).out;
  CHECK(fused.row_bytes(layers) == 9 * 16 * 4);
  CHECK((linear.at(0).norm_parts == 9 && linear.at(0).out == layers && linear.at(0).makes_copy));
  CHECK(linear.at(0).post_norm->eps > 60 * 1e-6f);  // 64 columns before the norm
  CHECK((linear.at(0).scale == std::sqrt(0.5f) && linear.at(0).keep == std::sqrt(0.5f)));
  CHECK((linear.at(1).norm && !linear.at(1).makes_copy));
  const auto gated = ops_of<cuda::GatedPart>(fused);
  for (size_t layer = 0; layer < gated.size(); ++layer) {
    CHECK(gated[layer].up == layers);
    CHECK(gated[layer].first == static_cast<int64_t>(layer) * 16);
  }
  // The gate's product reads the copy that the feed-forward's sum leaves.
  CHECK((linear.at(4).leaves_copy && linear.at(5).in == fused.copy && !linear.at(5).makes_copy));
  int reading = 0;
  for (const cuda::FusedAttention& op : ops_of<cuda::FusedAttention>(fused)) {
    reading += op.appends ? 0 : 1;
  }
  CHECK(reading == 4);
  const Model model = open_model(folder).model;
  const cuda::Sizes sizes = sizes_of(model);
  CHECK(sizes.placement.device >= model.program().weight_bytes());
  CHECK(has(kernels(model, 1), "gated_part\n"));
}

TEST_CASE("experts beside a feed-forward write a sum of their own, which is normed with it") {
  const std::filesystem::path folder = find_golden("gemma4-moe");
  if (folder.empty()) return;
  const Model model = open_model(folder).model;
  std::string text = "embed";
  for (int layer = 0; layer < 6; ++layer) {
    text += " norm+linear attention linear norm+linear linear experts sum_of_norms";
  }
  CHECK(fused_text(model.program()) == text + " norm+linear");
  const cuda::FusedProgram fused = cuda::fuse_program(model.program());
  for (const cuda::FusedExperts& op : ops_of<cuda::FusedExperts>(fused)) {
    CHECK((!op.adds && op.out != fused.hidden && op.norm.in == fused.hidden));
    CHECK((op.route_norm && fused.routes_apart(op)));
    CHECK(op.expert_scale != WeightId::None);
    CHECK(fused.row_bytes(op.out) == 64 * 4);
  }
  const auto linear = ops_of<cuda::FusedLinear>(fused);
  CHECK(linear.at(3).epilogue == cuda::Epilogue::Floats);
  for (const cuda::SumOfNorms& op : ops_of<cuda::SumOfNorms>(fused)) {
    CHECK((op.out == fused.hidden && op.a == linear.at(3).out && op.keep == op.scale));
  }
  const std::string one = kernels(model, 1);
  CHECK(has(one, "combine\n"));
  CHECK(!has(one, "(sum)"));
  CHECK(sizes_of(model).placement.device >= model.program().weight_bytes());
}

}  // namespace skald::test
