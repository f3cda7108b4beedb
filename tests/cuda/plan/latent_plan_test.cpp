// Checks how the CUDA planner fuses attention to latents.
#include "cuda/cuda.h"
#include "models/random/random.h"
#include "tests/catch.h"
#include "tests/cuda/plan/plans.h"
#include "tests/error_text.h"

namespace skald::test {

TEST_CASE("attention to latents: queries and one key side by side, products for each head") {
  const Model model = shape_model("glm-4.7-flash", "q4_k_m");
  CHECK(cuda::model_problem(model).empty());
  const std::string attention =
      " norm linear buffer_norm linear linear linear buffer_norm part part part head_products "
      "attention head_products linear";
  const std::string text = fused_text(model.program());
  CHECK(text.starts_with("embed" + attention + " norm+linear linear" + attention +
                         " experts linear linear" + attention));
  const cuda::FusedProgram fused = cuda::fuse_program(model.program());
  const auto all = ops_of<cuda::FusedAttention>(fused);
  REQUIRE(all.size() == 47);
  CHECK((all[0].spec.keys_serve && !all[0].values_are_keys && all[0].qkv == fused.qkv));
  const int64_t stride = 21 * 576;
  const auto parts = ops_of<cuda::FusedPart>(fused);
  CHECK((parts[0].to.first == 20 * 576 && parts[0].cols == 64));
  CHECK((parts[1].to.first == 20 * 576 + 64 && parts[1].cols == 512));
  CHECK((parts[2].heads == 20 && parts[2].from.first == 192 && parts[2].from.width == 256));
  for (int i = 0; i < 3; ++i) CHECK(parts[i].to.stride == stride);
  CHECK(parts[2].to.width == 576);
  const auto products = ops_of<cuda::HeadProducts>(fused);
  CHECK((products[0].to.first == 64 && products[0].to.width == 576));
  CHECK(products[0].to.stride == stride);
  CHECK((products[0].from.first == 0 && products[0].from.width == 256));
  CHECK((products[1].from.first == 64 && products[1].from.width == 576));
  CHECK((products[1].to.first == 0 && products[1].to.width == 256));
  CHECK(fused.cols(fused.qkv) >= stride);
  CHECK(sizes_of(model).page == 47 * 64 * 576 * 2);  // keys alone, of 64 tokens
  for (const int rows : {1, 300}) {
    CHECK(has(kernels(model, rows), "attn_k_b 20 heads, [512, 192]: head_products\n"));
    CHECK(has(kernels(model, rows), "rope_append + attention_wide\n"));
  }
}

TEST_CASE("attention whose keys serve as values is no pattern where it has sinks, or more keys") {
  Model model = shape_model("glm-4.7-flash", "bf16");
  Program program = model.program();
  for (Op& op : program.ops) {
    if (auto* attention = std::get_if<Attention>(&op)) attention->v = attention->out;
  }
  CHECK(has(error_text([&] { cuda::fuse_program(program); }), "where it stands in this model"));
}

}  // namespace skald::test
