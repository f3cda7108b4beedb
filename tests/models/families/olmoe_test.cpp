// OLMoE: what its configuration says, and what is refused. The golden is in golden_test.cpp.
#include "tests/family_golden.h"

namespace skald::test {

TEST_CASE("OLMoE normalizes whole queries and keys, and not the weights of its experts") {
  if (find_golden("olmoe").empty()) return;
  const ModelConfig c = golden_config("olmoe", {{"norm_topk_prob", "erase"}});
  CHECK(c.qk_norm == QkNorm::Whole);
  CHECK(c.experts.count == 8);
  CHECK(c.experts.used == 3);
  CHECK(c.experts.ffn_dim == 32);
  CHECK(!c.experts.normalized);
  CHECK(golden_config("olmoe", {{"norm_topk_prob", true}}).experts.normalized);
  CHECK(has(golden_refusal("olmoe", {{"clip_qkv", 8.0}}), "'clip_qkv' is 8"));
}

}  // namespace skald::test
