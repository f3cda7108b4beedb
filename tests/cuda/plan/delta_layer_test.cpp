// Checks how the CUDA planner finds gated delta nets and gated attention in a program.
#include <algorithm>

#include "cuda/plan/kernel_table.h"
#include "models/open.h"
#include "models/random/random.h"
#include "tests/catch.h"
#include "tests/cuda/plan/plans.h"
#include "tests/error_text.h"
#include "tests/golden.h"

namespace skald::test {

TEST_CASE("a delta net is one product and one op in every layout of its weights") {
  // Hugging Face's folders: queries, keys and values in one matrix, or all numbers of a group of
  // heads side by side.
  for (const char* name : {"qwen3_5", "qwen3_next"}) {
    if (!have_shared(std::string("goldens/") + name)) continue;
    CAPTURE(name);
    const Model model = open_model(find_golden(name)).model;
    const std::string text = fused_text(model.program());
    CHECK(text.starts_with("embed norm+linear delta linear"));
    CHECK(has(text, " norm+linear norm+linear attention gated_act linear"));
    const cuda::FusedProgram fused = cuda::fuse_program(model.program());
    const auto nets = ops_of<cuda::FusedDelta>(fused);
    REQUIRE(nets.size() == 3);
    const cuda::DeltaColumns& d = nets[0].columns;  // 2 heads of 16 keys, 4 of 32 values
    if (std::string_view(name) == "qwen3_5") {
      CHECK(d.value.of(1, 1) == 2 * 32 + 3 * 32);
      CHECK(d.gate.of(0, 1) == 192 + 32);
      CHECK(d.decay.of(1, 0) == 192 + 128 + 4 + 2);
    } else {
      const int group = 2 * 16 + 4 * 32;
      CHECK(d.key.of(1, 0) == group + 16);
      CHECK(d.value.of(1, 1) == group + 2 * 16 + 32);
      CHECK(d.gate.of(0, 1) == 2 * 16 + 3 * 32);
      CHECK(d.beta.of(1, 1) == 2 * group + 4 + 1);
      CHECK(d.decay.of(0, 1) == 2 * group + 2 + 1);
    }
    // The queries' rows, without those of the gates between them, are one matrix.
    const auto attention = ops_of<cuda::FusedAttention>(fused);
    const auto linears = ops_of<cuda::FusedLinear>(fused);
    const auto qkv = std::find_if(linears.begin(), linears.end(), [&](const auto& linear) {
      return linear.out == attention[0].qkv;
    });
    REQUIRE(qkv != linears.end());
    const TensorView& queries = fused.program.weight(qkv->parts[0]).view;
    CHECK(queries.rows == 2 * 64);
    const Tensor* both = model.weights->find("blk.3.attn_q.weight");
    REQUIRE(both);
    std::vector<float> row(64), from(64);
    std::vector<std::byte> scratch;
    for (const int64_t r : {0, 63, 64, 127}) {
      queries.decode_row(r, row.data(), scratch);
      both->view.decode_row(r / 64 * 128 + r % 64, from.data(), scratch);
      CHECK(row == from);
    }
  }

  const Model shape = shape_model("qwen3.5-27b", "q4_k_m");
  CHECK(has(kernels(shape, 1), "48 heads, 16 k, 128 x 128: delta_decode\n"));
  CHECK(has(kernels(shape, 512), "48 heads, 16 k, 128 x 128: delta_chunks\n"));
  CHECK(has(kernels(shape, 4), "48 heads, 16 k, 128 x 128: delta_rows\n"));
  CHECK(has(kernels(shape, 1), "gated_act"));
  const cuda::Sizes sizes = sizes_of(shape);
  CHECK(sizes.state_offsets.size() == 48);
  // A ring of 4 rows of the convolution, and a matrix for each head of values.
  CHECK(sizes.slot_floats == 48 * (4 * 10240 + 48 * 128 * 128));
  CHECK(sizes.states() == sizes.slot_floats * 4);
}

TEST_CASE("long prompts take a delta net's kernel of chunks") {
  const Model model = shape_model("qwen3.5-27b", "q4_k_m");
  const cuda::FusedProgram fused = cuda::fuse_program(model.program());
  cuda::DeltaShape shape = fused.shape(ops_of<cuda::FusedDelta>(fused).at(0));
  const auto selected = [&](const cuda::StateNeed& need, int capability = 90) {
    return cuda::select_state(shape, need, {capability, 132}).name;
  };
  CHECK(selected({}) == "delta_chunks");
  CHECK(selected({}, 80) == "delta_chunks");
  CHECK(selected({}, 75) == "delta_rows");
  CHECK(selected({.few_each = true}) == "delta_rows");
  // A token's result may not depend on where its chunk begins.
  CHECK(selected({.reproducible = true}) == "delta_rows");
  CHECK(selected({.decode = true}) == "delta_decode");
  shape.spec.value_dim = 48;
  CHECK(selected({}) == "delta_chunks");
  // No other kernel has this width.
  CHECK(selected({.decode = true}) == "delta_plain");
  shape.type = DType::F16;
  CHECK(selected({}) == "delta_plain");

  // Chunks of 16 rows, and a part of a chunk for each of the 64 sequences that a step may have.
  cuda::SizeOptions options;
  options.rows = 2048;
  options.context = 4096;
  options.multiprocessors = 132;
  const cuda::Sizes sizes(fused, options);
  CHECK(sizes.delta_factors == (2048 / 16 + 64) * 48 * (2 * 16 * 16 + 16) * 4);
  options.reproducible = true;
  const cuda::Sizes pinned(fused, options);
  CHECK(pinned.delta_factors == 0);
}

}  // namespace skald::test
