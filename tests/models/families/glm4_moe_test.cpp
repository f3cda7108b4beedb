// GLM-4.5: what its configuration says, and what is refused. The golden is in golden_test.cpp.
#include "tests/family_golden.h"

namespace skald::test {

TEST_CASE("GLM-4.5 has a shared expert, a first layer without experts, and skips its last layer") {
  if (find_golden("glm4_moe").empty()) return;
  const ModelConfig c = golden_config("glm4_moe");
  CHECK(c.layers == 4);
  CHECK(c.experts.gating == Gating::Sigmoid);
  CHECK(c.experts.choice_bias);
  CHECK(c.experts.scale == 2.5f);
  CHECK(c.experts.shared_dim == 32);
  CHECK(c.experts.dense == std::vector<bool>{true, false, false, false});
  CHECK(c.attention_bias);
  CHECK(!c.attention_output_bias);
  CHECK(c.qk_norm == QkNorm::None);
  CHECK(has(golden_refusal("glm4_moe", {{"n_group", 4}}), "'n_group' is 4"));
  CHECK(has(golden_refusal("glm4_moe", {{"scoring_func", "softmax"}}), "'scoring_func'"));
  CHECK(has(golden_refusal("glm4_moe", {{"routed_scaling_factor", -1}}),
            "'routed_scaling_factor' is -1, expected a number above 0"));
  CHECK(has(golden_refusal("glm4_moe", {{"use_qk_norm", true}}), "attn_q_norm.weight' is missing"));
  TempFolder temp;
  const OpenedModel opened = open_model(copy_golden(temp, "glm4_moe"));
  for (const Tensor& tensor : opened.model.weights->tensors()) {
    CHECK(!tensor.name.starts_with("blk.4."));
  }
}

}  // namespace skald::test
