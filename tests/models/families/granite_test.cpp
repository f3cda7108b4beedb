// Granite 4: what its configuration says, and what is refused. The golden is in golden_test.cpp,
// that of Granite 3 in families_test.cpp.
#include "models/convert/gguf_export.h"
#include "tests/family_golden.h"

namespace skald::test {

TEST_CASE("Granite 4 has the width of its shared feed-forward, and rope if its key says so") {
  if (find_golden("granite4").empty()) return;
  const ModelConfig c = golden_config("granite4", {{"intermediate_size", 99}});
  CHECK(c.ffn_dim == 128);
  CHECK(c.unrotated.empty());
  CHECK(c.embedding_scale == 12);
  CHECK(c.logit_scale == 1.0f / 3);
  const ModelConfig still = golden_config("granite4", {{"position_embedding_type", "nope"}});
  CHECK(still.unrotated == std::vector<bool>(4, true));
  CHECK(golden_config("granite4", {{"position_embedding_type", "erase"}}).unrotated ==
        still.unrotated);
}

TEST_CASE("a Granite 4 with experts or Mamba layers is refused") {
  if (find_golden("granite4").empty()) return;
  CHECK(has(golden_refusal("granite4", {{"num_local_experts", 4}}), "'num_local_experts' is 4"));
  CHECK(has(golden_refusal("granite4", {{"num_local_experts", "erase"}}),
            "'num_local_experts' is 8"));
  CHECK(has(golden_refusal("granite4", {{"layer_types", "erase"}}), "'layer_types' is missing"));
  CHECK(has(golden_refusal("granite4", {{"layer_types/2", "mamba"}}),
            "'layer_types' has 'mamba'; only 'attention' is supported"));
}

TEST_CASE("the GGUF of a Granite 4 has gate and up in two matrices, and says where rope is off") {
  if (find_golden("granite4").empty()) return;
  TempFolder temp;
  const fs::path folder = copy_golden(temp, "granite4", {{"position_embedding_type", "nope"}});
  GgufExport out = export_gguf(open_model(folder));
  int gates = 0, ups = 0;
  for (const MadeTensor& tensor : out.tensors) {
    gates += tensor.name.ends_with("ffn_gate.weight");
    ups += tensor.name.ends_with("ffn_up.weight");
    if (tensor.name.find("ffn_gate") != tensor.name.npos) CHECK(tensor.shape[0] == 128);
    out.head.add_tensor(tensor.name, tensor.shape, tensor.type);
  }
  CHECK(gates == 4);
  CHECK(ups == 4);
  CHECK(out.head.has("granite.rope.scaling.finetuned"));
  check_export(open_model(folder), out.head, out.tensors);
}

}  // namespace skald::test
