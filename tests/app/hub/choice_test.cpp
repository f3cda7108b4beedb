#include "app/hub/choice.h"

#include "tests/catch.h"
#include "tests/error_text.h"

namespace skald::test {
namespace {

using Names = std::vector<std::string>;

// "TYPE file+file; …"
std::string shown(const Names& files) {
  std::string text;
  for (const GgufModel& model : gguf_models(files)) {
    text += (text.empty() ? "" : "; ") + model.type + " ";
    for (const std::string& file : model.files) {
      text += (file == model.files.front() ? "" : "+") + file;
    }
  }
  return text;
}

std::string chosen(const Names& files, const std::string& type = "") {
  const auto models = gguf_models(files);
  return choose_gguf(models, type, "acme/tiny").files.front();
}

TEST_CASE("a GGUF's type is read from its name") {
  const auto type = [](const char* file) { return gguf_models(Names{file}).at(0).type; };
  CHECK(type("Llama-3.2-1B-Instruct-Q4_K_M.gguf") == "Q4_K_M");
  CHECK(type("mistral-7b-v0.1.Q5_K_S.gguf") == "Q5_K_S");
  CHECK(type("gemma-3-4b-it-q4_0.gguf") == "Q4_0");
  CHECK(type("gpt-oss-20b-mxfp4.gguf") == "MXFP4");
  CHECK(type("x-UD-Q4_K_XL.gguf") == "UD-Q4_K_XL");
  CHECK(type("UD-IQ2_M/x-UD-IQ2_M-00001-of-00002.gguf") == "UD-IQ2_M");
  CHECK(type("Q8_0/model-00001-of-00002.gguf") == "Q8_0");
  CHECK(type("model_q4_k_m.gguf") == "Q4_K_M");
  CHECK(type("Phi-4-bf16.gguf") == "BF16");
  CHECK(type("Qwen3-8B.gguf") == "");
}

TEST_CASE("parts of a split GGUF are one model; image encoders are none") {
  CHECK(shown({"b-Q8_0-00002-of-00002.gguf", "a-Q4_0.gguf", "mmproj-model-f16.gguf", "README.md",
               "b-Q8_0-00001-of-00002.gguf", "a.imatrix.gguf"}) ==
        "Q4_0 a-Q4_0.gguf; Q8_0 b-Q8_0-00001-of-00002.gguf+b-Q8_0-00002-of-00002.gguf");
  CHECK(gguf_models(Names{"b-00001-of-00002.gguf"}).at(0).whole() == false);
  CHECK(gguf_models(Names{"b-00001-of-00001.gguf"}).at(0).whole());
}

TEST_CASE("the asked type is chosen, in small or capital letters") {
  const Names files = {"x-Q4_K_M.gguf", "x-Q8_0.gguf", "x-UD-Q4_K_XL.gguf", "x-Q4_0_4_4.gguf"};
  CHECK(chosen(files, "q8_0") == "x-Q8_0.gguf");
  CHECK(chosen(files, "Q4_K_XL") == "x-UD-Q4_K_XL.gguf");
  CHECK(chosen(files, "UD-Q4_K_XL") == "x-UD-Q4_K_XL.gguf");
  CHECK(error_text([&] { chosen(files, "Q5_0"); }) ==
        "acme/tiny: has no GGUF of type Q5_0; the types here: Q4_K_M, Q8_0, UD-Q4_K_XL");
  CHECK(error_text([&] { chosen(files, "Q4_0_4_4"); }) ==
        "acme/tiny: skald does not read the type Q4_0_4_4; the types that it reads here: Q4_K_M, "
        "Q8_0, UD-Q4_K_XL");
}

TEST_CASE("types that skald has formats for can be read") {
  for (const char* type : {"Q4_K_M", "Q2_K_L", "UD-Q4_K_XL", "UD-Q8_K_XL", "IQ3_M", "IQ4_NL", "F16",
                           "FP16", "BF16", "MXFP4", "MXFP4_MOE", "Q4_0", "IQ2_M", "IQ1_S",
                           "UD-IQ2_XXS", "IQ3_XXS", "IQ3_XS", "TQ1_0", ""}) {
    CAPTURE(type);
    CHECK(is_readable_type(type));
  }
  for (const char* type : {"Q4_0_4_4", "Q1_0", "IQ5_M", "NVFP4", "FP8"}) {
    CAPTURE(type);
    CHECK(!is_readable_type(type));
  }
}

TEST_CASE("without a type, Q4_K_M is chosen, or what is nearest to it") {
  CHECK(chosen({"x-F16.gguf", "x-Q2_K.gguf", "x-Q4_K_M.gguf", "x-Q8_0.gguf"}) == "x-Q4_K_M.gguf");
  CHECK(chosen({"x-F16.gguf", "x-Q2_K.gguf", "x-Q4_0.gguf"}) == "x-Q4_0.gguf");
  CHECK(chosen({"x-F16.gguf", "x-Q2_K.gguf", "x-Q8_0.gguf"}) == "x-Q8_0.gguf");
  CHECK(chosen({"x-F16.gguf", "x-Q2_K.gguf"}) == "x-Q2_K.gguf");
  CHECK(chosen({"x-Q4_K_S.gguf", "x-MXFP4.gguf", "x-Q4_0.gguf"}) == "x-MXFP4.gguf");
  CHECK(chosen({"x-IQ4_XS.gguf", "x-Q4_K_S.gguf", "x-Q4_0.gguf"}) == "x-Q4_K_S.gguf");
  CHECK(chosen({"x-IQ2_XXS.gguf", "x-IQ4_XS.gguf", "x-Q5_K_M.gguf"}) == "x-IQ4_XS.gguf");
  CHECK(chosen({"x-IQ1_S.gguf", "x-F16.gguf", "x-BF16.gguf"}) == "x-BF16.gguf");
  CHECK(chosen({"x-NVFP4.gguf", "x-Q4_0.gguf", "x-Q8_0.gguf"}) == "x-Q4_0.gguf");
  CHECK(chosen({"x-UD-Q4_K_M.gguf", "x-Q5_K_M.gguf"}) == "x-Q5_K_M.gguf");
  CHECK(chosen({"sub/y-Q4_K_M.gguf", "x-Q4_K_M.gguf"}) == "x-Q4_K_M.gguf");
  CHECK(chosen({"only.gguf"}) == "only.gguf");
  CHECK(error_text([] {
          chosen({"a.gguf", "b.gguf"});
        }) ==
        "acme/tiny: has 2 GGUF models, and none has a type that skald would choose; name one as in "
        "acme/tiny/a.gguf");
  CHECK(error_text([] { chosen({}); }) == "acme/tiny: has no GGUF files");
}

TEST_CASE(
    "of a folder, configuration, tokenizer, templates and one form of the weights are needed") {
  const Names files = {"README.md",
                       "config.json",
                       "consolidated.safetensors",
                       "generation_config.json",
                       "hf_quant_config.json",
                       "model-00001-of-00002.safetensors",
                       "model-00002-of-00002.safetensors",
                       "model.safetensors.index.json",
                       "onnx/model.onnx",
                       "original/model.safetensors",
                       "pytorch_model.bin",
                       "tokenizer.json",
                       "additional_chat_templates/tools.jinja"};
  CHECK(folder_files(files) == Names{"additional_chat_templates/tools.jinja", "config.json",
                                     "generation_config.json", "hf_quant_config.json",
                                     "model-00001-of-00002.safetensors",
                                     "model-00002-of-00002.safetensors",
                                     "model.safetensors.index.json", "tokenizer.json"});
  CHECK(
      folder_files(Names{"config.json", "model.safetensors", "model-00001-of-00001.safetensors"}) ==
      Names{"config.json", "model.safetensors"});
  CHECK(folder_files(Names{"config.json", "pytorch_model.bin"}).empty());
}

}  // namespace
}  // namespace skald::test
