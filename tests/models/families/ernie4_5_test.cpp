// ERNIE 4.5: what its configuration says. The golden is in golden_test.cpp.
#include "tests/family_golden.h"

namespace skald::test {

TEST_CASE("ERNIE 4.5 rotates neighbours, and has biases everywhere or nowhere") {
  if (find_golden("ernie4_5").empty()) return;
  const ModelConfig c = golden_config(
      "ernie4_5",
      {{"rope_theta", "erase"}, {"rms_norm_eps", "erase"}, {"tie_word_embeddings", "erase"}});
  CHECK(c.rope.interleaved);
  CHECK(c.rope_base == 500000);
  CHECK(c.norm_eps == 1e-5f);
  CHECK(c.tied);
  CHECK(!c.attention_bias);
  CHECK(has(golden_refusal("ernie4_5", {{"use_bias", true}}), "'blk.0.attn_q.bias' is missing"));
}

}  // namespace skald::test
