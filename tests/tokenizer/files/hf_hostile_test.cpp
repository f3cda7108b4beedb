// Wrong, unknown or hostile tokenizer.json files: each is refused in one line that says where.
#include "tests/error_text.h"
#include "tests/hostile.h"
#include "tests/temp_folder.h"
#include "tests/tokenizer/files/hf_data.h"

namespace skald::test {
namespace {

std::string refusal(const Json& json) {
  return error_text([&] { make_hf(json); });
}

TEST_CASE("an unknown part of a tokenizer.json is named, never ignored") {
  const auto changed = [](const char* path, const Json& value) {
    Json json = hf_json("byte");
    json[Json::json_pointer(path)] = value;
    return refusal(json);
  };
  const auto step = [&](const char* text) { return changed("/pre_tokenizer", Json::parse(text)); };
  CHECK(has(changed("/surprise", 1), "has 'surprise', which skald does not support"));
  CHECK(has(changed("/model/surprise", 1), "model: has 'surprise'"));
  CHECK(has(changed("/model/dropout", 0.1), "model: dropout"));
  CHECK(has(changed("/model/end_of_word_suffix", "</w>"), "end_of_word_suffix: '</w>'"));
  CHECK(has(changed("/model/continuing_subword_prefix", "##"), "continuing_subword_prefix: '##'"));
  CHECK(has(changed("/model/unk_token", "<nope>"), "unk_token '<nope>' is not in the vocabulary"));
  CHECK(has(changed("/model/fuse_unk", 1), "model: fuse_unk: is 1, expected true or false"));
  CHECK(has(changed("/normalizer", {{"type", "Lowercase"}}), "normalizer: 'Lowercase'"));
  CHECK(has(changed("/normalizer", 5), "normalizer: type: is null, expected a string"));
  CHECK(has(changed("/decoder", nullptr), "decoder: is null"));
  CHECK(has(changed("/decoder", {{"type", "CTC"}}), "decoder: 'CTC'"));
  CHECK(has(changed("/decoder", {{"type", "Fuse"}}),
            "only one of pre_tokenizer and decoder is byte-level"));
  CHECK(has(changed("/post_processor", {{"type", "BertProcessing"}}), "'BertProcessing'"));
  CHECK(has(step(R"({"type": "UnicodeScripts"})"), "pre_tokenizer: 'UnicodeScripts'"));
  CHECK(has(step(R"({"type": "ByteLevel", "more": 1})"), "pre_tokenizer: has 'more'"));
  CHECK(has(step(R"({"type": "Split", "pattern": {"Regex": "a"}, "behavior": "Odd"})"),
            "behavior: 'Odd'"));
  CHECK(has(step(R"({"type": "Sequence", "pretokenizers": [{"type": "ByteLevel"},
                     {"type": "Metaspace"}]})"),
            "pretokenizers: 1: Metaspace after ByteLevel"));
  CHECK(has(step(R"({"type": "Sequence", "pretokenizers": [{"type": "ByteLevel"},
                     {"type": "ByteLevel"}]})"),
            "pretokenizers: 1: ByteLevel after ByteLevel, which skald does not support; expected"));
  CHECK(has(step(R"({"type": "Split", "pattern": {"Regex": "a("}, "behavior": "Isolated"})"),
            "the pattern 'a(' has a '(' without its ')'"));
  CHECK(has(changed("/added_tokens/0/content", "other"), "has the id 0, which is"));
  CHECK(has(changed("/added_tokens/0/colour", "red"), "added_tokens: 0: has 'colour'"));
}

TEST_CASE("a tokenizer.json of another kind is reported as no BPE") {
  const char* unigram = R"({"model": {"type": "Unigram", "unk_id": 0, "vocab": [["a", -1.0]]},
                            "normalizer": {"type": "Precompiled"}})";
  CHECK(!parse_hf_tokenizer(unigram, "test"));
  CHECK(!parse_hf_tokenizer(R"({"model": {"type": "WordPiece", "vocab": {"a": 0}}})", "test"));
  CHECK(!parse_hf_tokenizer(R"({"model": {"vocab": {"a": 0}}})", "test"));
}

TEST_CASE("contradicting ids, tokens and merges are refused") {
  const auto vocab = [](const char* text) {
    Json json = hf_json("byte");
    json["model"]["merges"] = Json::array();
    json["added_tokens"] = Json::array();
    const std::string all = json.dump(), old = json["model"]["vocab"].dump();
    std::string made = all;
    made.replace(made.find(old), old.size(), text);
    return error_text([&] { make_bpe(std::move(*parse_hf_tokenizer(made, "test"))); });
  };
  CHECK(vocab(R"({"a": 0, "b": 1})") == "");
  CHECK(has(vocab(R"({"a": 0, "a": 1})"), "token 'a' occurs twice, with the ids 0 and 1"));
  CHECK(has(vocab(R"({"a": 0, "b": 0})"), "tokens 'a' and 'b' have the same id 0"));
  CHECK(has(vocab(R"({"a": 1048576})"), "token 'a' has the id 1048576, expected 0 to 1048575"));
  CHECK(has(vocab(R"({"a": 18446744073709551615})"), "'a' has no whole number as its id"));
  CHECK(has(vocab(R"({"a": -1})"), "token 'a' has the id -1"));
  CHECK(has(vocab(R"({"a": 1.5})"), "'a' has no whole number as its id"));
  CHECK(has(vocab(R"({"a": {"b": 1}})"), "'a' has no whole number as its id"));
  CHECK(has(vocab("{}"), "0 tokens, expected 1 to"));

  Json json = hf_json("byte");
  for (const Json& merge : {Json("a"), Json("a b c"), Json::array({"a"}),
                            Json::array({"a", "b", "c"}), Json(5), Json::array({1, 2})}) {
    json["model"]["merges"] = Json::array({merge});
    CHECK(has(refusal(json), "is neither \"a b\" nor [\"a\", \"b\"]"));
  }
  json["model"]["merges"] = Json::parse(R"([["a", "nowhere"]])");
  CHECK(has(refusal(json), "merge 0, 'a' and 'nowhere': 'nowhere' is not in"));
  json["model"]["merges"] = Json::parse(R"([["#", "a"]])");
  CHECK(has(refusal(json), "'#a' is not in the vocabulary"));
}

TEST_CASE("deep, cut, binary or huge JSON is refused in one line") {
  const std::string whole = hf_json("byte").dump();
  std::vector<std::string> files = {
      "",
      "[]",
      "null",
      "{\"model\": 5}",
      "{\"model\": {\"type\": \"BPE\", \"merges\": []}}",
      std::string(1 << 20, '['),
      "{\"a\":" + std::string(1 << 20, '9') + "}",
      "{\"a\":\"\xff\xfe\"}",
      "{\"a\":\"\\ud800\"}",
      "{\"model\":{\"vocab\":" + std::string(1 << 20, '{'),
      "{\"model\":{\"vocab\":{},\"vocab\":{}}}",
      "{\"model\":{\"merges\":[],\"merges\":[]}}",
      "{\"model\":{\"merges\":[[[]]]}}",
  };
  for (size_t cut = 0; cut < whole.size(); cut += 97) files.push_back(whole.substr(0, cut));
  const HostileResult result = open_in_child(static_cast<int>(files.size()), [&](int i) {
    auto vocabulary = parse_hf_tokenizer(files[static_cast<size_t>(i)], "test");
    if (vocabulary) make_bpe(std::move(*vocabulary));
  });
  CHECK(result.refused > 200);
}

TEST_CASE("a tokenizer.json with random bytes changed loads or is refused") {
  const std::string whole = hf_json("spm").dump();
  const HostileResult result = open_in_child(1500, [&](int i) {
    std::mt19937 random(static_cast<uint32_t>(i));
    std::string changed = whole;
    for (int n = 0; n < 3; ++n)
      changed[random() % changed.size()] = "\"{}[]:,0a\\\xC3"[random() % 11];
    auto vocabulary = parse_hf_tokenizer(changed, "test");
    if (vocabulary) make_bpe(std::move(*vocabulary))->encode("the fox \xF0\x9F\x9A\x80", {});
  });
  CHECK(result.refused > 500);
}

}  // namespace
}  // namespace skald::test
