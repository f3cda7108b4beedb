// Ministral 3: queries that grow with their position. The golden is in golden_test.cpp.
#include "models/convert/gguf_export.h"
#include "models/families/family.h"
#include "tests/family_golden.h"
#include "tests/gguf_writer.h"

namespace skald::test {
namespace {

using Json = nlohmann::json;

// The growth of a GGUF that `add` completes.
template <class Add>
QueryGrowth gguf_growth(Add add) {
  GgufWriter w;
  w.text("general.architecture", "mistral3");
  w.u32("mistral3.block_count", 1);
  w.u32("mistral3.embedding_length", 16);
  w.u32("mistral3.feed_forward_length", 8);
  w.u32("mistral3.attention.head_count", 2);
  w.f32("mistral3.attention.layer_norm_rms_epsilon", 1e-5f);
  add(w);
  w.tensors.push_back({"token_embd.weight", {16, 4}, 0, std::string(16 * 4 * 4, '\0')});
  TempFolder temp;
  const auto file = open_gguf(temp.write("m.gguf", w.file()));
  return family_for_gguf("mistral3", "m.gguf").from_gguf(*file).query_growth;
}

}  // namespace

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
            "'quant_method' is missing"));
  // Other families do not know the key.
  CHECK(has(refusal("model_type", "mistral"), "'llama_4_scaling_beta' is not known"));
}

TEST_CASE("a GGUF's queries grow by the rope's original context, or by a length of their own") {
  constexpr const char* kRate = "mistral3.attention.temperature_scale";
  constexpr const char* kContext = "mistral3.rope.scaling.original_context_length";
  CHECK(gguf_growth([](GgufWriter& w) { w.u32(kContext, 8); }) == QueryGrowth{});
  const auto both = [](GgufWriter& w) {
    w.f32(kRate, 0.25f);
    w.u32(kContext, 8);
  };
  CHECK(gguf_growth(both) == QueryGrowth{0.25f, 8});
  CHECK(gguf_growth([&](GgufWriter& w) {
          both(w);
          w.u32("mistral3.attention.temperature_length", 4);
        }) == QueryGrowth{0.25f, 4});
  CHECK(has(error_text([] { gguf_growth([](GgufWriter& w) { w.f32(kRate, 0.25f); }); }), kContext));
}

TEST_CASE("the GGUF of a Ministral 3 has the growth of its queries") {
  if (find_golden("ministral3").empty()) return;
  TempFolder temp;
  const GgufExport out = export_gguf(open_model(copy_golden(temp, "ministral3")));
  CHECK(out.head.has("mistral3.attention.temperature_scale"));
  CHECK(out.head.has("mistral3.rope.scaling.yarn_log_multiplier"));
}

}  // namespace skald::test
