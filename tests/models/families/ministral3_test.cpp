// Ministral 3: queries that grow with their position. The golden is in golden_test.cpp.
#include "models/convert/gguf_export.h"
#include "tests/family_golden.h"

namespace skald::test {

TEST_CASE("queries of Ministral 3 grow by one step each original context") {
  if (find_golden("ministral3").empty()) return;
  const ModelConfig c = golden_config("ministral3", {{"text_config/sliding_window", "erase"}});
  CHECK(c.architecture == "ministral3");
  CHECK(c.query_growth == QueryGrowth{0.1f, 16});
  CHECK(c.query_growth.at(15) == 1);
  CHECK(c.query_growth.at(16) == 1 + 0.1f * std::log(2.0f));
  CHECK(c.query_growth.at(47) == 1 + 0.1f * std::log(3.0f));
  CHECK(QueryGrowth{}.at(1000) == 1);
  CHECK(c.window == 0);
  CHECK(c.rope.scale == 1);
  CHECK(c.context == 512);
}

TEST_CASE("a Ministral 3 that does not say how its queries grow is refused") {
  if (find_golden("ministral3").empty()) return;
  const auto refusal = [](const char* key, const Json& value) {
    return golden_refusal("ministral3", {{concat("text_config/", key), value}});
  };
  CHECK(has(refusal("rope_parameters", "erase"), "'rope_parameters' is missing"));
  CHECK(has(refusal("rope_parameters/llama_4_scaling_beta", "erase"),
            "'llama_4_scaling_beta' is missing"));
  CHECK(has(refusal("rope_parameters/llama_4_scaling_beta", -1),
            "'llama_4_scaling_beta' is -1, expected 0 or more"));
  CHECK(has(refusal("rope_parameters/original_max_position_embeddings", 0),
            "'original_max_position_embeddings' is 0"));
  CHECK(has(refusal("layer_types",
                    {"full_attention", "full_attention", "full_attention", "sliding_attention"}),
            "'sliding_attention'"));
  CHECK(has(golden_refusal("ministral3", {{"quantization_config", Json::object()}}),
            "'quantization_config'"));
  // Other families do not know the key.
  CHECK(has(refusal("model_type", "mistral"), "'llama_4_scaling_beta' is not known"));
}

TEST_CASE("the GGUF of a Ministral 3 has the growth of its queries") {
  if (find_golden("ministral3").empty()) return;
  TempFolder temp;
  const GgufExport out = export_gguf(open_model(copy_golden(temp, "ministral3")));
  CHECK(out.head.has("mistral3.attention.temperature_scale"));
  CHECK(out.head.has("mistral3.rope.scaling.yarn_log_multiplier"));
}

}  // namespace skald::test
