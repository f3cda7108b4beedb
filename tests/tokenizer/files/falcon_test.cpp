// Falcon's rules in a tokenizer.json: Punctuation, and steps after ByteLevel.
#include "tests/error_text.h"
#include "tests/tokenizer/falcon_data.h"
#include "tests/tokenizer/files/hf_data.h"
#include "tokenizer/files/gguf_tokens.h"

namespace skald::test {
namespace {

std::string pieces_of(const Tokenizer& tokenizer, const std::string& text) {
  std::string out;
  for (const int32_t id : tokenizer.encode(text, bare(false))) {
    if (!out.empty()) out += ' ';
    out += tokenizer.piece(id);
  }
  return out;
}

TEST_CASE("Falcon's tokenizer.json gives the reference's tokens") {
  const auto tokenizer = make_hf(falcon_json(kFalconMerges, falcon_steps()));
  for (const FalconCase& one : kFalconCases) {
    CAPTURE(one.text);
    CHECK(pieces_of(*tokenizer, one.text) == one.folder);
    CHECK(tokenizer->decode(tokenizer->encode(one.text, bare(false))) == one.text);
  }
}

// Before ByteLevel a step sees the text, after it the byte alphabet: there "ò" has a digit.
TEST_CASE("Punctuation and Digits give the reference's tokens before and after ByteLevel") {
  struct Case {
    const char *step, *before, *after;
  };
  const Case cases[] = {
      {R"({"type": "Punctuation", "behavior": "Removed"})", "a a Ġ Ã² Â ½ 12 Ġa â¹ĥ",
       "a a Ġ Ã² Â ½ 12 Ġa â¹ĥ âĢľ"},
      {R"({"type": "Punctuation"})", "a . . a Ġ Ã² Â ½ 12 Ġa â¹ĥ ! âĢľ",
       "a . . a Ġ Ã² Â ½ 12 Ġa â¹ĥ ! âĢľ"},
      {R"({"type": "Punctuation", "behavior": "MergedWithPrevious"})",
       "a. . a Ġ Ã² Â ½ 12 Ġa â¹ĥ! âĢľ", "a. . a Ġ Ã² Â ½ 12 Ġa â¹ĥ! âĢľ"},
      {R"({"type": "Punctuation", "behavior": "MergedWithNext"})",
       "a . . a Ġ Ã² Â ½ 12 Ġa â¹ĥ ! âĢľ", "a . . a Ġ Ã² Â ½ 12 Ġa â¹ĥ !âĢ ľ"},
      {R"({"type": "Punctuation", "behavior": "Contiguous"})", "a .. a Ġ Ã² Â ½ 12 Ġa â¹ĥ !âĢ ľ",
       "a .. a Ġ Ã² Â ½ 12 Ġa â¹ĥ ! âĢľ"},
      {R"({"type": "Digits"})", "a. . a Ġ Ã² Â ½ 12 Ġa â¹ĥ !âĢ ľ",
       "a. . a Ġ Ã ² Â ½ 12 Ġa â ¹ ĥ !âĢ ľ"},
      {R"({"type": "Digits", "individual_digits": true})", "a. . a Ġ Ã² Â ½ 1 2 Ġa â¹ĥ !âĢ ľ",
       "a. . a Ġ Ã ² Â ½ 1 2 Ġa â ¹ ĥ !âĢ ľ"},
  };
  const Json bytes = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  const std::string text = "a..a ò½12 a⹃!“";
  for (const auto& [step, before, after] : cases) {
    CAPTURE(step);
    const Json json = Json::parse(step);
    CHECK(pieces_of(*make_hf(falcon_json(kFalconMerges, {json, bytes})), text) == before);
    CHECK(pieces_of(*make_hf(falcon_json(kFalconMerges, {bytes, json})), text) == after);
  }
}

std::string named(const std::vector<std::string>& merges, const Json& steps) {
  const std::string json = falcon_json(merges, steps).dump();
  const auto tokenizer = make_bpe(*parse_hf_tokenizer(json, "tokenizer.json"));
  return std::string(gguf_tokens(HfTokenizerFiles{json, "tokenizer.json", {}, {}}, *tokenizer).pre);
}

// A GGUF's rules do not cut digits off, which is the same where no merge joins them to others.
TEST_CASE("Falcon's rules have a name in GGUF if no merge joins a digit and another character") {
  const std::vector<std::string> apart = {"Ġ a", "1 2", "12 3", ". .", "¹ ²", "Ã ©"};
  CHECK(named(apart, falcon_steps()) == "falcon");
  for (const char* joined : {"Ġ 1", "1 a", "Ã ²", "² Ã"}) {
    CAPTURE(joined);
    std::vector<std::string> merges = apart;
    merges.push_back(joined);
    CHECK(has(error_text([&] { named(merges, falcon_steps()); }), "have no name in GGUF"));
  }
  const auto changed = [&](const char* where, const Json& value) {
    Json steps = falcon_steps();
    steps[Json::json_pointer(where)] = value;
    return has(error_text([&] { named(apart, steps); }), "have no name in GGUF");
  };
  CHECK(changed("/0/behavior", "Isolated"));
  CHECK(changed("/1/add_prefix_space", true));
  CHECK(changed("/1/use_regex", false));
  CHECK(changed("/2/individual_digits", true));
  CHECK(changed("/3/pattern/Regex", "\\p{N}"));
  CHECK(changed("/3/behavior", "Removed"));
  // After ByteLevel, the pattern of another name cuts other texts.
  Json gpt2 = falcon_steps();
  gpt2[1]["use_regex"] = false;
  gpt2[2] = {{"type", "Split"}, {"pattern", {{"Regex", kGpt2Pattern}}}, {"behavior", "Isolated"}};
  CHECK(has(error_text([&] { named(apart, gpt2); }), "have no name in GGUF"));
}

}  // namespace
}  // namespace skald::test
