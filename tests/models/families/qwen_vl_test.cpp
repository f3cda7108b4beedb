// The text parts of Qwen2.5-VL and Qwen3-VL. The golden of Qwen3-VL is in golden_test.cpp.
#include "models/convert/gguf_export.h"
#include "tests/family_golden.h"

namespace skald::test {
namespace {

using Json = nlohmann::json;

const Json kSections = {{"type", "mrope"}, {"mrope_section", {16, 24, 24}}};

void check_golden_logits(const fs::path& folder, const fs::path& golden) {
  const OpenedModel opened = open_model(folder);
  const auto executor = cpu::make_executor(opened.model, {.exact = true}, cpu::KernelSet::Fast);
  check_logits(*executor, golden / "golden.json", golden / "logits.npy");
}

}  // namespace

TEST_CASE("Qwen3-VL has Qwen3's layers, and shares its embedding if one of two keys says so") {
  if (find_golden("qwen3_vl").empty()) return;
  const ModelConfig c = golden_config("qwen3_vl");
  CHECK(c.architecture == "qwen3_vl");
  CHECK(c.qk_norm == QkNorm::Heads);
  CHECK(c.rope_base == 5000000);
  CHECK(!c.tied);
  for (const char* key : {"tie_word_embeddings", "text_config/tie_word_embeddings"}) {
    CHECK(golden_config("qwen3_vl", {{key, true}}).tied);
  }
  CHECK(has(golden_refusal("qwen3_vl", {{"text_config/rope_scaling/strange", 1}}),
            "'strange' is not known"));
  CHECK(has(golden_refusal("qwen3_vl", {{"quantization_config", Json::object()}}),
            "'quant_method' is missing"));
}

TEST_CASE("an opened folder says whether it has a vision part") {
  if (find_golden("qwen3_vl").empty()) return;
  TempFolder temp;
  CHECK(open_model(copy_golden(temp, "qwen3_vl")).has_vision);
  CHECK(!open_model(copy_golden(temp, "qwen3_vl", {{"vision_config", "erase"}})).has_vision);
}

TEST_CASE("the GGUF of a Qwen3-VL has four sections of the rope") {
  if (find_golden("qwen3_vl").empty()) return;
  TempFolder temp;
  const std::string head = export_gguf(open_model(copy_golden(temp, "qwen3_vl"))).head.text();
  CHECK(head.find("qwen3vl.rope.dimension_sections") != head.npos);
  CHECK(
      has(error_text([&] {
            export_gguf(open_model(copy_golden(
                temp, "qwen3_vl", {{"text_config/rope_scaling/mrope_section", {1, 2, 3, 4, 5}}})));
          }),
          "'mrope_section' is not a list of up to 4 sizes"));
}

TEST_CASE("Qwen2.5-VL's text part computes what a Qwen2 with the same weights computes") {
  const fs::path golden = find_golden("qwen2-bias-tied");
  if (golden.empty()) return;
  TempFolder temp;
  fs::create_directory(temp.path() / "m");
  Json text = read_json(golden / "config.json");
  text["rope_scaling"] = kSections;
  const std::string weights = read_file(golden / "model.safetensors");
  SECTION("with all keys in one object, as published") {
    text["model_type"] = "qwen2_5_vl";
    text["vision_config"] = {{"hidden_size", 8}};
    temp.write("m/config.json", text.dump());
    temp.write("m/model.safetensors", weights);
  }
  SECTION("with the keys in text_config") {
    const bool newer = GENERATE(false, true);
    text["model_type"] = "qwen2_5_vl_text";
    temp.write("m/config.json", Json{{"model_type", "qwen2_5_vl"}, {"text_config", text}}.dump());
    temp.write("m/model.safetensors", as_text_part(weights, newer));
  }
  check_golden_logits(temp.path() / "m", golden);
  const OpenedModel opened = open_model(temp.path() / "m");
  CHECK(opened.family == "Qwen2-VL");
  GgufExport out = export_gguf(opened);
  CHECK(out.head.has("qwen2vl.rope.dimension_sections"));
  for (const MadeTensor& t : out.tensors) out.head.add_tensor(t.name, t.shape, t.type);
  check_export(opened, out.head, out.tensors);
}

}  // namespace skald::test
