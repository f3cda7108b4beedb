// tokenizer.json files give the ids of Hugging Face's tokenizers library.
#include "tests/error_text.h"
#include "tests/temp_folder.h"
#include "tests/tokenizer/files/hf_data.h"
#include "tokenizer/text/text_stream.h"
#include "tokenizer/text/utf8.h"

namespace skald::test {
namespace {

using Ids = std::vector<int32_t>;

TEST_CASE("every rule of a tokenizer.json gives the reference's ids and texts") {
  const Json golden = Json::parse(read_bytes(tokenizer_data("hf.golden.json")));
  CHECK(golden["variants"].size() == 29);
  for (const Json& variant : golden["variants"]) {
    Json json = hf_json(variant["base"]);
    json.update(variant["parts"]);
    json["model"].update(variant["model"]);
    const auto tokenizer = make_hf(json);
    const std::string name = variant["name"];
    for (size_t i = 0; i < golden["texts"].size(); ++i) {
      const std::string text = golden["texts"][i], key = std::to_string(i);
      CAPTURE(name, text);
      const Ids ids = variant["ids"][i];
      CHECK(tokenizer->encode(text, bare(true)) == ids);
      CHECK(tokenizer->encode(text, bare(false)) == variant["plain"].value(key, ids));
      CHECK(tokenizer->decode(ids) == variant["decoded"].value(key, text));
    }
  }
}

TEST_CASE("the shared byte-level BPEs give the reference's ids and texts") {
  for (const std::string name : {"bpe-gpt2-1k", "bpe-llama3-1k", "bpe-qwen2-1k", "llama3"}) {
    const std::string file = "tokenizers/" + name + "-tokenizer.json";
    if (!have_shared(file)) return;
    const auto tokenizer = open_hf_tokenizer(shared_dir() / file);
    REQUIRE(tokenizer);
    const Json golden =
        Json::parse(read_bytes(shared_dir() / "tokenizers" / (name + ".golden.json")));
    CHECK(golden["cases"].size() > 100);
    for (const Json& item : golden["cases"]) {
      const std::string text = item["text"];
      CAPTURE(name, text);
      const Ids ids = item["ids"];
      CHECK(tokenizer->encode(text, bare(true)) == ids);
      CHECK(tokenizer->decode(ids, true) == item["decoded"].get<std::string>());
    }
  }
}

TEST_CASE("a user's text never becomes a control token") {
  Json json = hf_json("byte");
  // Control tokens by flag, by name, and as end token. A plain added token is no control token.
  json["added_tokens"].push_back({{"id", 1000}, {"content", "<|eot_id|>"}, {"special", false}});
  json["added_tokens"].push_back({{"id", 1001}, {"content", "[STOP]"}, {"special", false}});
  json["added_tokens"].push_back({{"id", 1002}, {"content", "[EOS]"}, {"special", false}});
  json["added_tokens"].push_back({{"id", 1003}, {"content", "<think>"}, {"special", false}});
  HfTokenizerConfig config;
  config.eos = "[EOS]";
  auto vocabulary = parse_hf_tokenizer(json.dump(), "test", config);
  REQUIRE(vocabulary);
  vocabulary->ends = {1001, 5000, -1};
  const auto tokenizer = make_bpe(std::move(*vocabulary));
  const std::string text = "<|im_end|><|eot_id|>[STOP][EOS]<think>";
  CHECK(tokenizer->encode(text, bare(true)) == Ids{2, 1000, 1001, 1002, 1003});
  const Ids plain = tokenizer->encode(text, bare(false));
  for (const int32_t id : plain) CHECK(!tokenizer->is_control(id));
  CHECK(plain.back() == 1003);
  CHECK(tokenizer->decode(plain) == text);
  CHECK(tokenizer->decode(Ids{2, 1000, 1003}) == "<think>");
}

TEST_CASE("neither a merge nor a whole word becomes a control token") {
  Json json = hf_json("byte");
  const int32_t the = json["model"]["vocab"]["\u0120the"];
  json["added_tokens"].push_back({{"id", the}, {"content", "\u0120the"}, {"special", true}});
  for (const bool ignore_merges : {false, true}) {
    json["model"]["ignore_merges"] = ignore_merges;
    const auto tokenizer = make_hf(json);
    for (const int32_t id : tokenizer->encode("see the sea", bare(false))) CHECK(id != the);
    CHECK(tokenizer->decode(tokenizer->encode("see the sea", bare(false))) == "see the sea");
  }
}

TEST_CASE("a single character that is marked special stays text") {
  Json json = hf_json("byte");
  const int32_t mark = json["model"]["vocab"]["!"];
  json["added_tokens"].push_back({{"id", mark}, {"content", "!"}, {"special", true}});
  const auto tokenizer = make_hf(json);
  CHECK(tokenizer->decode(tokenizer->encode("hey!", bare(false))) == "hey!");
}

TEST_CASE("BOS and EOS follow the template, and the configuration overrides it") {
  Json json = hf_json("spm");
  const auto flags = [&](const HfTokenizerConfig& config) {
    const auto tokenizer = make_hf(json, config);
    Ids ids = tokenizer->encode("a", bare(false));
    if (tokenizer->special().add_bos) ids.insert(ids.begin(), 1);
    if (tokenizer->special().add_eos) ids.push_back(2);
    CHECK(tokenizer->encode("a", {}) == ids);
    return std::pair(tokenizer->special().add_bos, tokenizer->special().add_eos);
  };
  HfTokenizerConfig config;
  config.bos = "<s>";
  config.eos = "</s>";
  json["decoder"] = {{"type", "Fuse"}};
  CHECK(flags(config) == std::pair(false, false));
  json["post_processor"] = Json::parse(R"({"type": "TemplateProcessing", "single": [
      {"SpecialToken": {"id": "begin", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
      "pair": [], "special_tokens": {"begin": {"id": "begin", "ids": [1], "tokens": ["<s>"]}}})");
  CHECK(flags({}) == std::pair(true, false));
  config.add_bos = false;
  config.add_eos = true;
  CHECK(flags(config) == std::pair(false, true));
  json["post_processor"] = {{"type", "Sequence"},
                            {"processors", {{{"type", "ByteLevel"}}, json["post_processor"]}}};
  CHECK(flags({}) == std::pair(true, false));
  const auto tokenizer = make_hf(json);
  CHECK(tokenizer->special().bos == 1);
  // A text that begins with BOS gets no second BOS.
  EncodeOptions special;
  special.parse_special = true;
  CHECK(tokenizer->encode("<s>a", special) == tokenizer->encode("a", {}));
  CHECK(tokenizer->encode("<s>a", {}).size() > 4);
}

TEST_CASE("the tokens in tokenizer_config.json may be strings or objects") {
  const HfTokenizerConfig config = parse_hf_tokenizer_config(
      R"({"bos_token": {"content": "<s>", "lstrip": false}, "eos_token": "</s>", "pad_token": null,
          "add_bos_token": true, "legacy": false, "added_tokens_decoder": {"0": {"content": "a"}}})",
      "test");
  CHECK(config.bos == "<s>");
  CHECK(config.eos == "</s>");
  CHECK(config.pad == "");
  CHECK(config.add_bos == true);
  CHECK(!config.add_eos);
  CHECK(config.legacy == false);
}

TEST_CASE("without legacy, only the start of a text gets a space") {
  Json json = hf_json("spm");
  json["normalizer"] = Json::parse(R"({"type": "Sequence", "normalizers": [
      {"type": "Prepend", "prepend": "▁"},
      {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]})");
  json["decoder"] = {{"type", "Fuse"}};
  const auto pieces = [&](std::optional<bool> legacy, bool starts_text = true) {
    HfTokenizerConfig config;
    config.legacy = legacy;
    const auto tokenizer = make_hf(json, config);
    EncodeOptions options = bare(true);
    options.starts_text = starts_text;
    std::string out;
    for (const int32_t id : tokenizer->encode("fox</s>fox", options)) out += tokenizer->piece(id);
    return out;
  };
  CHECK(pieces({}) == "▁fox</s>▁fox");
  CHECK(pieces(true) == "▁fox</s>▁fox");
  CHECK(pieces(false) == "▁fox</s>fox");
  CHECK(pieces(false, false) == "fox</s>fox");
  CHECK(pieces(true, false) == "fox</s>▁fox");
}

TEST_CASE("merges are read in both forms") {
  const auto paired = make_hf(hf_json("byte"));
  Json json = hf_json("byte");
  for (Json& merge : json["model"]["merges"]) {
    merge = merge[0].get<std::string>() + " " + merge[1].get<std::string>();
  }
  json["model"]["merges"].insert(json["model"]["merges"].begin(), "#version: 0.2");
  const auto spaced = make_hf(json);
  const std::string text = "The quick brown fox, 1234 times over the lazy dog's back";
  CHECK(spaced->encode(text, bare(false)) == paired->encode(text, bare(false)));
}

TEST_CASE("bytes that are not UTF-8 are read as U+FFFD") {
  const auto tokenizer = make_hf(hf_json("byte"));
  for (const std::string bytes : {"a\xFF\xFE", "\xE2\x96", "\xED\xA0\x80", "x\xF4\x90\x80\x80y"}) {
    const Ids ids = tokenizer->encode(bytes, bare(false));
    CHECK(ids == tokenizer->encode(utf8_repaired(bytes), bare(false)));
    CHECK(tokenizer->decode(ids) == utf8_repaired(bytes));
  }
}

TEST_CASE("streaming ids gives the text of decoding them together, always in UTF-8") {
  std::mt19937 random(3);
  for (const std::string base : {"byte", "spm"}) {
    Json json = hf_json(base);
    if (base == "spm") json["decoder"] = {{"type", "ByteFallback"}};
    const auto tokenizer = make_hf(json);
    for (int round = 0; round < 2000; ++round) {
      const Ids ids = random_ids(*tokenizer, random);
      TextStream stream(*tokenizer);
      std::string text;
      for (const int32_t id : ids) {
        const std::string more = stream.feed(id);
        CHECK(utf8_valid(more));
        text += more;
      }
      text += stream.flush();
      CHECK(text == tokenizer->decode(ids));
    }
  }
}

TEST_CASE(
    "a broken character is one U+FFFD, and a control token inside a character does not break it") {
  const auto tokenizer = make_hf(hf_json("byte"));
  const auto bytes = [&](std::string_view text) {
    Ids ids;
    for (const char c : text) {
      for (int32_t id = 0; id < tokenizer->vocab_size(); ++id) {
        if (tokenizer->piece_bytes(id) == std::string(1, c)) ids.push_back(id);
      }
    }
    REQUIRE(ids.size() == text.size());
    return ids;
  };
  CHECK(tokenizer->decode(bytes("\xF0\x9F\x98z")) == "\xEF\xBF\xBDz");
  CHECK(tokenizer->decode(bytes("\xF0\x9F\x98")) == "\xEF\xBF\xBD");
  CHECK(tokenizer->decode(bytes("\x80\x80")) == "\xEF\xBF\xBD\xEF\xBF\xBD");
  Ids rocket = bytes("\xF0\x9F\x9A\x80");
  rocket.insert(rocket.begin() + 2, 1);
  CHECK(tokenizer->decode(rocket) == "🚀");
}

}  // namespace
}  // namespace skald::test
