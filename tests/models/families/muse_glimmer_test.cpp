// Muse Glimmer: what its configuration says and what is refused. The golden is in golden_test.cpp.
#include "tests/exported_gguf.h"
#include "tests/family_golden.h"

namespace skald::test {
namespace {

using Json = nlohmann::json;

const std::string kMuseGolden = "muse_glimmer";

}  // namespace

TEST_CASE("Muse Glimmer norms heads without weights and rotates in layers with a window alone") {
  const fs::path folder = find_golden(kMuseGolden);
  if (folder.empty()) return;
  const ModelConfig c = golden_config(kMuseGolden);
  CHECK(c.windows == std::vector<int>{16, 16, 16, 0});
  CHECK(c.unrotated == std::vector<bool>{false, false, false, true});
  CHECK(c.bare_query_scale == 3.87f);
  CHECK(c.logit_scale == 0.5f);
  CHECK(c.logit_softcap == 20);
  CHECK(c.attention_gate);
  const ModelConfig unsaid = golden_config(
      kMuseGolden,
      {{"text_config/layer_types", "erase"}, {"text_config/layer_rope_theta", "erase"}});
  CHECK(unsaid.windows == c.windows);
  CHECK(unsaid.unrotated == c.unrotated);

  // GGUFs hold the factor of queries as weights of their norm.
  TempFolder temp;
  const OpenedModel back =
      open_model(temp.write("m.gguf", gguf_bytes(open_model(folder), DType::F32)));
  CHECK(back.model.config.bare_query_scale == 0);
  const Tensor* weights = back.gguf->find("blk.0.attn_q_norm.weight");
  REQUIRE(weights != nullptr);
  float first = 0;
  std::memcpy(&first, weights->view.data, sizeof first);
  CHECK(first == 3.87f);
}

TEST_CASE("a configuration of Muse Glimmer that skald does not compute is refused") {
  if (find_golden(kMuseGolden).empty()) return;
  const auto refused = [](const char* key, const Json& value) {
    return golden_refusal(kMuseGolden, {{std::string("text_config/") + key, value}});
  };
  CHECK(has(refused("post_norm_eps", 1e-5), "'post_norm_eps' is 1e-05, expected 1e-08"));
  CHECK(has(refused("hidden_activation", "gelu"), "expected 'silu'"));
  CHECK(has(refused("layer_rope_theta", {10000.0}), "has 1 values, expected one for each of 4"));
  CHECK(has(refused("qk_scale_factor", 0), "'qk_scale_factor' is 0"));
  CHECK(has(refused("output_multiplier", -1), "'output_multiplier' is -1"));
}

}  // namespace skald::test
