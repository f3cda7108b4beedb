// The rules that a GGUF names in tokenizer.ggml.pre, against what Hugging Face's tokenizers makes
// of the rules in the models' own tokenizer.json.
#include "engine/base/error.h"
#include "tests/error_text.h"
#include "tests/tokenizer/files/hf_data.h"
#include "tokenizer/bpe/pre_tokenizer.h"
#include "tokenizer/text/normalizer.h"

namespace skald::test {
namespace {

TEST_CASE("named rules cut texts where the rules of the model's tokenizer.json cut them") {
  const Json golden = Json::parse(read_bytes(tokenizer_data("hf.golden.json")));
  int checked = 0;
  for (const Json& variant : golden["variants"]) {
    if (!variant.contains("cuts")) continue;
    const std::string name = variant["name"];
    const auto named = named_pre_tokenizer(name, "test");
    REQUIRE(named);
    Normalizer normalizer;
    if (named->nfc) normalizer.add(UnicodeForm::Nfc);
    for (size_t i = 0; i < golden["texts"].size(); ++i) {
      const std::string text = normalizer.apply(golden["texts"][i].get<std::string>(), false);
      CAPTURE(name, text);
      std::vector<uint32_t> lengths;
      const auto parts = named->rules.cut(text, {.starts_text = true, .prefix = false});
      for (const Span& part : parts->spans) lengths.push_back(part.end - part.begin);
      CHECK(lengths == variant["cuts"][i].get<std::vector<uint32_t>>());
    }
    ++checked;
  }
  CHECK(checked == 15);
}

TEST_CASE("names that stand for the same rules are written as the first of them") {
  const auto written = [](const char* pattern, bool nfc, bool ignore_merges) {
    return pre_tokenizer_name({pattern}, nfc, ignore_merges);
  };
  CHECK(written(std::string(kGpt2Pattern).c_str(), false, false) == "gpt-2");
  CHECK(written("no such pattern", false, false).empty());
  CHECK(named_pre_tokenizer("no such name", "test") == nullptr);
}

// As llama.cpp cuts them: the spaces before a number stay together.
TEST_CASE("MiniCPM 5 cuts numbers out before words and spaces") {
  const auto named = named_pre_tokenizer("minicpm5", "test");
  REQUIRE(named);
  const std::string text = "a  12345 b";
  std::vector<std::string> parts;
  const auto cut = named->rules.cut(text, {.starts_text = true, .prefix = false});
  for (const Span& part : cut->spans) {
    parts.push_back(text.substr(part.begin, part.end - part.begin));
  }
  CHECK(parts == std::vector<std::string>{"a", "  ", "123", "45", " b"});
  CHECK(named->ignore_merges);
}

// GLM-4's tokenizer.json says so, and some of its pieces are made by no sequence of merges.
TEST_CASE("GLM-4 looks for a whole part in the vocabulary before it merges") {
  CHECK(named_pre_tokenizer("glm4", "test")->ignore_merges);
  CHECK(named_pre_tokenizer("glm5", "test")->ignore_merges);
  CHECK(named_pre_tokenizer("llama-bpe", "test")->ignore_merges);
  CHECK_FALSE(named_pre_tokenizer("gpt-4o", "test")->ignore_merges);
}

}  // namespace
}  // namespace skald::test
