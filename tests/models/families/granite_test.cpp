// Granite 4: what its configuration says, and what is refused. The goldens are in golden_test.cpp,
// that of Granite 3 in families_test.cpp.
#include "models/convert/gguf_export.h"
#include "tests/exported_gguf.h"
#include "tests/family_golden.h"

namespace skald::test {
namespace {

const std::string kHybrid = "granite4-hybrid";

}  // namespace

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

TEST_CASE("most layers of a hybrid Granite 4 have a state space in the place of attention") {
  if (find_golden(kHybrid).empty()) return;
  const ModelConfig c = golden_config(kHybrid);
  CHECK(c.space.layers == std::vector<bool>{true, true, false, true});
  CHECK(c.space.spec == SpaceSpec{8, 16, 1, 16});
  CHECK(c.space.taps == 4);
  CHECK(c.experts.count == 6);
  CHECK(c.experts.ffn_dim == 32);
  CHECK(c.experts.shared_dim == 128);
  const Program program = open_model(find_golden(kHybrid)).model.program();
  CHECK(program.kv.size() == 1);
  CHECK(program.states.size() == 6);  // of three convolutions and three matrices
}

TEST_CASE("a configuration of a hybrid Granite 4 that skald does not compute is refused") {
  if (find_golden(kHybrid).empty()) return;
  const auto refused = [](const nlohmann::json& changes) {
    return golden_refusal(kHybrid, changes);
  };
  CHECK(has(refused({{"layer_types/2", "window"}}),
            "'layer_types' has 'window', expected 'attention' or 'mamba'"));
  CHECK(has(refused({{"layer_types", {"mamba"}}}), "has 1 values, expected one for each of 4"));
  CHECK(has(refused({{"mamba_proj_bias", true}}), "'mamba_proj_bias' is true, expected false"));
  CHECK(has(refused({{"mamba_n_heads", 3}}), "'mamba_n_heads' is 3, expected a divisor of 128"));
  CHECK(has(refused({{"mamba_n_groups", 3}}), "cannot share 3 groups evenly"));
  CHECK(has(refused({{"mamba_d_conv", 1}}), "'mamba_d_conv' is 1"));
  CHECK(has(refused({{"layer_types", "erase"}}), "tensor 'blk.2.ssm_in.weight' is missing"));
}

TEST_CASE("the GGUF of a hybrid Granite 4 has experts in three stacks and a shared expert") {
  const fs::path folder = find_golden(kHybrid);
  if (folder.empty()) return;
  TempFolder temp;
  const OpenedModel back =
      open_model(temp.write("m.gguf", gguf_bytes(open_model(folder), DType::F32)));
  const GgufMetadata& m = back.gguf->metadata();
  CHECK(m.ints("granitehybrid.attention.head_count_kv") == std::vector<int64_t>{0, 0, 2, 0});
  CHECK(m.uint("granitehybrid.expert_shared_feed_forward_length") == 128);
  for (const char* part : {"gate", "up"}) {
    const std::string name = concat("blk.1.ffn_", part);
    CHECK(back.gguf->find(name + "_exps.weight")->shape == std::vector<int64_t>{6, 32, 64});
    CHECK(back.gguf->find(name + "_shexp.weight")->shape == std::vector<int64_t>{128, 64});
  }
  CHECK(back.gguf->find("blk.1.ffn_down_shexp.weight") != nullptr);
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
