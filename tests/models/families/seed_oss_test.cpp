// Seed-OSS: biases. The golden is in golden_test.cpp.
#include "tests/family_golden.h"

namespace skald::test {

TEST_CASE("Seed-OSS has biases of queries, keys and values, and of the output if its key says so") {
  if (find_golden("seed_oss").empty()) return;
  const ModelConfig c = golden_config("seed_oss");
  CHECK(c.attention_bias);
  CHECK(!c.attention_output_bias);
  CHECK(golden_config("seed_oss", {{"attention_bias", "erase"}}).attention_bias);
  CHECK(has(golden_refusal("seed_oss", {{"attention_out_bias", true}}),
            "'blk.0.attn_output.bias' is missing"));
  CHECK(has(golden_refusal("seed_oss", {{"head_dim", "erase"}}), "'blk.0.attn_q.weight' is"));
}

}  // namespace skald::test
