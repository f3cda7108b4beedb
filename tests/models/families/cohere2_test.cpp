// Cohere 2: what its configuration says, and what is refused. The golden is in golden_test.cpp.
#include "models/families/families.h"
#include "tests/family_golden.h"

namespace skald::test {
namespace {

using Json = nlohmann::json;

fs::path cohere_folder(const TempFolder& temp, const Json& changes) {
  const fs::path golden = data_dir() / "goldens/cohere2", folder = temp.path() / "m";
  fs::create_directory(folder);
  Json config = read_json(golden / "config.json");
  for (const auto& [key, value] : changes.items()) {
    config[key] = value;
    if (value == "erase") config.erase(key);
  }
  temp.write("m/config.json", config.dump());
  fs::copy_file(golden / "model.safetensors", folder / "model.safetensors");
  return folder;
}

ModelConfig cohere(const Json& changes = Json::object()) {
  TempFolder temp;
  return open_model(cohere_folder(temp, changes)).model.config;
}

std::string cohere_refusal(const Json& changes) {
  return error_text([&] { cohere(changes); });
}

}  // namespace

TEST_CASE("Cohere 2 rotates in layers with a window and not in the others") {
  const ModelConfig c = cohere();
  CHECK(c.windows == std::vector<int>{16, 16, 16, 0});
  CHECK(c.unrotated == std::vector<bool>{false, false, false, true});
  CHECK(c.rope.interleaved);
  CHECK(c.norm == NormKind::Layer);
  CHECK(!c.norm_bias);
  CHECK(c.tied);
  CHECK(c.logit_scale == 0.25f);

  CHECK(cohere({{"sliding_window_pattern", 2}}).windows == std::vector<int>{16, 0, 16, 0});
  const Json types = {"full_attention", "sliding_attention", "full_attention", "full_attention"};
  const ModelConfig listed = cohere({{"layer_types", types}});
  CHECK(listed.windows == std::vector<int>{0, 16, 0, 0});
  CHECK(listed.unrotated == std::vector<bool>{true, false, true, true});
  CHECK(cohere({{"sliding_window_pattern", "erase"}}).windows == c.windows);
  CHECK(cohere({{"logit_scale", "erase"}}).logit_scale == 0.0625f);
}

TEST_CASE("Cohere 2's norms have the epsilon of its configuration") {
  CHECK(cohere().norm_eps == 1e-5f);
  CHECK(cohere({{"layer_norm_eps", 0.25}}).norm_eps == 0.25f);
  CHECK(has(cohere_refusal({{"rms_norm_eps", 0.25}}), "'rms_norm_eps' is 0.25"));
}

TEST_CASE("Cohere 2 with other layers than the published ones is refused") {
  CHECK(has(cohere_refusal({{"use_parallel_block", false}}), "'use_parallel_block' is false"));
  CHECK(has(cohere_refusal({{"use_gated_activation", false}}), "'use_gated_activation' is false"));
  CHECK(has(cohere_refusal({{"use_qk_norm", true}}), "'use_qk_norm' is true"));
  CHECK(has(cohere_refusal({{"rotary_pct", 0.5}}), "'rotary_pct' is 0.5"));
  CHECK(has(cohere_refusal({{"position_embedding_type", "alibi"}}), "'position_embedding_type'"));
  CHECK(has(cohere_refusal({{"order_of_interleaved_layers", "global_first"}}),
            "'order_of_interleaved_layers'"));
  CHECK(has(cohere_refusal({{"logit_scale", 0}}), "'logit_scale' is 0, expected more than 0"));
}

TEST_CASE("attention and feed-forward of Cohere 2 read one norm") {
  TempFolder temp;
  const Program program = open_model(cohere_folder(temp, Json::object())).model.program();
  std::string layer;
  for (size_t i = 1; i <= 14; ++i) layer += std::string(op_name(program.ops[i])) + " ";
  CHECK(layer ==
        "layer_norm linear linear gated_act linear linear linear rope rope attention linear add "
        "linear add ");
}

}  // namespace skald::test
