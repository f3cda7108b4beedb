// LFM2: what its configurations say and what is refused. The golden is in golden_test.cpp. A
// mixture is made here of the golden's weights.
#include "models/convert/gguf_export.h"
#include "tests/exported_gguf.h"
#include "tests/family_golden.h"

namespace skald::test {
namespace {

using Json = nlohmann::json;

const std::string kLfm2Golden = "lfm2";

}  // namespace

TEST_CASE("most layers of LFM2 have a short convolution in the place of attention") {
  if (find_golden(kLfm2Golden).empty()) return;
  const ModelConfig c = golden_config(kLfm2Golden);
  CHECK(c.short_conv.layers == std::vector<bool>{true, true, false, true});
  CHECK(c.short_conv.taps == 3);
  CHECK(c.ffn_dim == 128);  // two thirds of block_ff_dim, rounded up to block_multiple_of
  CHECK(c.qk_norm == QkNorm::Heads);
  CHECK(c.tied);
  CHECK(c.norm_eps == 1e-5f);
  CHECK(c.rope_base == 1e6f);
  const ModelConfig listed = golden_config(
      kLfm2Golden,
      {{"full_attn_idxs", "erase"}, {"layer_types", {"conv", "conv", "full_attention", "conv"}}});
  CHECK(listed.short_conv.layers == c.short_conv.layers);
  CHECK(golden_config(kLfm2Golden, {{"block_auto_adjust_ff_dim", false}, {"block_ff_dim", 128}})
            .ffn_dim == 128);
  const Program program = open_model(find_golden(kLfm2Golden)).model.program();
  CHECK(program.kv.size() == 1);
  CHECK(program.state_floats() == 3 * 2 * 64);
}

TEST_CASE("a configuration of LFM2 that skald does not compute is refused") {
  if (find_golden(kLfm2Golden).empty()) return;
  const auto refused = [](const Json& changes) { return golden_refusal(kLfm2Golden, changes); };
  CHECK(has(refused({{"conv_bias", true}}), "'conv_bias' is true, expected false"));
  CHECK(has(refused({{"conv_L_cache", 1}}), "'conv_L_cache' is 1"));
  CHECK(has(refused({{"layer_types", {"conv"}}}), "has 1 values, expected one for each of 4"));
  CHECK(has(refused({{"layer_types", {"conv", "conv", "window", "conv"}}}),
            "'layer_types' has 'window', expected 'full_attention' or 'conv'"));
  CHECK(has(refused({{"block_ffn_dim_multiplier", -1}}), "'block_ffn_dim_multiplier' is -1"));
  CHECK(has(refused({{"full_attn_idxs", {0}}}), "missing"));
}

TEST_CASE("a GGUF of LFM2 has no heads of keys in layers with a convolution") {
  const fs::path folder = find_golden(kLfm2Golden);
  if (folder.empty()) return;
  TempFolder temp;
  const OpenedModel folder_model = open_model(folder);
  const OpenedModel back = open_model(temp.write("m.gguf", gguf_bytes(folder_model, DType::F32)));
  const GgufMetadata& m = back.gguf->metadata();
  CHECK(m.ints("lfm2.attention.head_count_kv") == std::vector<int64_t>{0, 0, 2, 0});
  CHECK(m.uint("lfm2.shortconv.l_cache") == 3);
  CHECK(back.gguf->find("token_embd_norm.weight") != nullptr);
  CHECK(back.gguf->find("blk.0.shortconv.conv.weight")->shape == std::vector<int64_t>{64, 3});
  CHECK(back.model.config.short_conv.layers == folder_model.model.config.short_conv.layers);
}

}  // namespace skald::test
