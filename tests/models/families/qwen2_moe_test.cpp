// Qwen2-MoE: what its configuration and GGUF say, and what is refused. The golden is in
// golden_test.cpp.
#include <algorithm>

#include "models/convert/gguf_export.h"
#include "tests/family_golden.h"

namespace skald::test {

using Json = nlohmann::json;

TEST_CASE("Qwen2-MoE has a shared expert with a gate, and biases of queries, keys and values") {
  if (find_golden("qwen2_moe").empty()) return;
  const ModelConfig c = golden_config("qwen2_moe", {{"norm_topk_prob", "erase"},
                                                    {"qkv_bias", "erase"},
                                                    {"mlp_only_layers", "erase"},
                                                    {"decoder_sparse_step", "erase"}});
  CHECK(c.experts.count == 8);
  CHECK(c.experts.used == 3);
  CHECK(c.experts.ffn_dim == 32);
  CHECK(c.experts.shared_dim == 64);
  CHECK(c.experts.shared_gate);
  CHECK(!c.experts.normalized);
  CHECK(c.experts.dense.empty());
  CHECK(c.attention_bias);
  CHECK(!c.attention_output_bias);
  CHECK(golden_config("qwen2_moe", {{"norm_topk_prob", true}}).experts.normalized);
  CHECK(!golden_config("qwen2_moe", {{"qkv_bias", false}}).attention_bias);
}

TEST_CASE("Qwen2-MoE's layers without experts are those that two keys say") {
  if (find_golden("qwen2_moe").empty()) return;
  // Layer 2 then needs the tensors of a plain feed-forward. The golden has experts in all layers.
  CHECK(has(golden_refusal("qwen2_moe", {{"mlp_only_layers", Json::array({2})}}),
            "'blk.2.ffn_gate.weight' is missing"));
  CHECK(has(golden_refusal("qwen2_moe", {{"decoder_sparse_step", 2}}),
            "'blk.0.ffn_gate.weight' is missing"));
  CHECK(has(golden_refusal("qwen2_moe", {{"shared_expert_intermediate_size", 0}}),
            "'shared_expert_intermediate_size' is 0"));
}

TEST_CASE("a GGUF of Qwen2-MoE has the keys and tensors that llama.cpp reads") {
  const fs::path folder = find_golden("qwen2_moe");
  if (folder.empty()) return;
  const GgufExport out = export_gguf(open_model(folder));
  const std::string head = out.head.text();
  for (const char* key :
       {"qwen2moe.expert_count", "qwen2moe.expert_used_count",
        "qwen2moe.expert_feed_forward_length", "qwen2moe.expert_shared_feed_forward_length"}) {
    CHECK(has(head, key));
  }
  const auto shape_of = [&](const std::string& name) {
    const auto found = std::find_if(out.tensors.begin(), out.tensors.end(),
                                    [&](const MadeTensor& tensor) { return tensor.name == name; });
    REQUIRE(found != out.tensors.end());
    return found->shape;
  };
  using Shape = std::vector<int64_t>;
  CHECK(shape_of("blk.3.ffn_gate_inp_shexp.weight") == Shape{64});
  CHECK(shape_of("blk.3.ffn_gate_shexp.weight") == Shape{64, 64});
  CHECK(shape_of("blk.3.ffn_down_shexp.weight") == Shape{64, 64});
  CHECK(shape_of("blk.3.ffn_gate_exps.weight") == Shape{8, 32, 64});
}

TEST_CASE("a Qwen2-MoE whose settings GGUF cannot say is not exported") {
  TempFolder temp;
  const fs::path folder = copy_golden(temp, "qwen2_moe", {{"norm_topk_prob", true}});
  if (folder.empty()) return;
  CHECK(has(error_text([&] { export_gguf(open_model(folder)); }),
            "cannot say this model's normalized weights of experts"));
}

}  // namespace skald::test
