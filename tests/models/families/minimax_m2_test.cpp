// MiniMax-M2: what its configuration says, and what is refused. The golden is in golden_test.cpp.
#include "tests/family_golden.h"

namespace skald::test {

TEST_CASE("MiniMax-M2 chooses experts by sigmoids with a bias, and rotates half of each head") {
  if (find_golden("minimax_m2").empty()) return;
  const ModelConfig c = golden_config("minimax_m2");
  CHECK(c.experts.gating == Gating::Sigmoid);
  CHECK(c.experts.choice_bias);
  CHECK(c.experts.normalized);
  CHECK(c.experts.count == 8);
  CHECK(c.experts.used == 3);
  CHECK(c.qk_norm == QkNorm::Whole);
  CHECK(c.rope.inv_freq.size() == 8);
  // The published files spell it so.
  const ModelConfig older = golden_config(
      "minimax_m2", {{"rope_parameters", "erase"}, {"rotary_dim", 16}, {"rope_theta", 5e6}});
  CHECK(older.rope.inv_freq == c.rope.inv_freq);
  CHECK(has(golden_refusal("minimax_m2", {{"scoring_func", "softmax"}}),
            "'scoring_func' is 'softmax', expected 'sigmoid'"));
  CHECK(has(golden_refusal("minimax_m2", {{"use_qk_norm", false}}), "'use_qk_norm' is false"));
  CHECK(has(golden_refusal("minimax_m2", {{"shared_intermediate_size", 64}}),
            "'shared_intermediate_size' is 64"));
  CHECK(has(golden_refusal("minimax_m2", {{"attn_type_list", {1, 0, 1, 1}}}), "'attn_type_list'"));
}

}  // namespace skald::test
