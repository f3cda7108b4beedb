// StarCoder2: what its configuration says, what is refused, and the layout of its GGUF. The golden
// is in golden_test.cpp.
#include "models/convert/gguf_export.h"
#include "tests/family_golden.h"

namespace skald::test {

TEST_CASE("StarCoder2 has Layer norms, biases, a window, and a feed-forward without a gate") {
  if (find_golden("starcoder2").empty()) return;
  const ModelConfig c = golden_config("starcoder2", {{"hidden_act", "erase"},
                                                     {"use_bias", "erase"},
                                                     {"norm_epsilon", 2e-3},
                                                     {"tie_word_embeddings", "erase"}});
  CHECK(c.norm == NormKind::Layer);
  CHECK(c.norm_bias);
  CHECK(c.norm_eps == 2e-3f);
  CHECK(!c.gated_mlp);
  CHECK(c.activation == Activation::GeluTanh);
  CHECK(c.tied);
  CHECK((c.attention_bias && c.attention_output_bias && c.mlp_bias));
  CHECK(c.window_of(0) == 24);
  CHECK(golden_config("starcoder2", {{"sliding_window", nullptr}}).window_of(0) == 0);
  const ModelConfig bare = golden_config("starcoder2", {{"use_bias", false}});
  CHECK(!(bare.attention_bias || bare.attention_output_bias || bare.mlp_bias));
  CHECK(bare.norm_bias);
}

TEST_CASE("StarCoder2 refuses settings that its layers do not have") {
  if (find_golden("starcoder2").empty()) return;
  CHECK(has(golden_refusal("starcoder2", {{"norm_type", "rms_norm"}}),
            "'norm_type' is 'rms_norm', expected 'layer_norm'"));
  CHECK(has(golden_refusal("starcoder2", {{"mlp_type", "gated"}}), "'mlp_type' is 'gated'"));
  CHECK(has(golden_refusal("starcoder2", {{"layer_norm_eps", 1e-3}}),
            "this architecture's norms have 'norm_epsilon'"));
}

TEST_CASE("a GGUF of StarCoder2 has the keys and tensors that llama.cpp reads") {
  const fs::path folder = find_golden("starcoder2");
  if (folder.empty()) return;
  const GgufExport out = export_gguf(open_model(folder));
  const std::string head = out.head.text();
  for (const char* key : {"starcoder2.attention.layer_norm_epsilon", "starcoder2.rope.freq_base",
                          "starcoder2.attention.sliding_window"}) {
    CHECK(has(head, key));
  }
  std::vector<std::string> layer;
  for (const MadeTensor& tensor : out.tensors) {
    if (tensor.name.rfind("blk.3.", 0) == 0) layer.push_back(tensor.name.substr(6));
  }
  std::sort(layer.begin(), layer.end());
  std::vector<std::string> expected;
  for (const char* part : {"attn_k", "attn_norm", "attn_output", "attn_q", "attn_v", "ffn_down",
                           "ffn_norm", "ffn_up"}) {
    expected.push_back(concat(part, ".bias"));
    expected.push_back(concat(part, ".weight"));
  }
  CHECK(layer == expected);
}

}  // namespace skald::test
