// Hunyuan: what its configuration says, and what is refused. The golden is in golden_test.cpp.
#include "tests/family_golden.h"

namespace skald::test {

TEST_CASE("Hunyuan raises the rope's base by its alpha, for every context") {
  if (find_golden("hunyuan_v1_dense").empty()) return;
  const ModelConfig c = golden_config("hunyuan_v1_dense");
  CHECK(c.rope_base == Approx(10000 * std::pow(1000.0, 32.0 / 30)));
  CHECK(c.rope_scaling == "none");
  CHECK(!c.rope.by_context);
  CHECK(c.context == 512);
  const ModelConfig dynamic =
      golden_config("hunyuan_v1_dense", {{"rope_scaling", {{"type", "dynamic"}, {"factor", 2.0}}}});
  CHECK(dynamic.rope_base == 10000);
  CHECK(dynamic.rope.by_context);
  CHECK(has(golden_refusal("hunyuan_v1_dense", {{"rope_scaling/alpha", -1}}), "'alpha' is -1"));
}

TEST_CASE("Hunyuan norms the heads of queries and keys after they rotate") {
  if (find_golden("hunyuan_v1_dense").empty()) return;
  TempFolder temp;
  const Program program = open_model(copy_golden(temp, "hunyuan_v1_dense")).model.program();
  std::string layer;
  for (size_t i = 1; i <= 9; ++i) layer += std::string(op_name(program.ops[i])) + " ";
  CHECK(layer == "rms_norm linear linear linear rope rope head_norm head_norm attention ");
  CHECK(has(golden_refusal("hunyuan_v1_dense", {{"use_qk_norm", false}}), "'use_qk_norm'"));
  CHECK(has(golden_refusal("hunyuan_v1_dense", {{"use_cla", true}}), "'use_cla' is true"));
}

}  // namespace skald::test
