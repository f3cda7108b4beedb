// The tokenizers of folders, converted to GGUF's arrays.
#include "tokenizer/files/gguf_tokens.h"
#include "tests/error_text.h"
#include "tests/tokenizer/files/hf_data.h"
#include "tests/tokenizer/tokenizer_data.h"

namespace skald::test {
namespace {

GgufTokens tokens_of_json(const std::string& json, std::optional<Vocabulary> model = {}) {
  auto vocabulary = parse_hf_tokenizer(json, "tokenizer.json");
  const auto tokenizer = make_bpe(std::move(*vocabulary));
  return gguf_tokens(HfTokenizerFiles{json, "tokenizer.json", {}, std::move(model)}, *tokenizer);
}

std::string pre_of(const nlohmann::json& json) {
  return std::string(tokens_of_json(json.dump()).pre);
}

}  // namespace

TEST_CASE("byte-level rules get GGUF's name for them") {
  auto json = nlohmann::json::parse(read_bytes(tokenizer_data("byte.tokenizer.json")));
  CHECK(pre_of(json) == "dbrx");  // Llama 3's pattern
  json["model"]["ignore_merges"] = true;
  CHECK(pre_of(json) == "llama-bpe");
  json["pre_tokenizer"] = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}};
  json["model"]["ignore_merges"] = false;
  CHECK(pre_of(json) == "gpt-2");
  json["pre_tokenizer"]["add_prefix_space"] = true;
  CHECK(has(error_text([&] { pre_of(json); }), "tokenizer.json: its pre-tokenizer"));
  json["pre_tokenizer"]["add_prefix_space"] = false;
  json["normalizer"] = {{"type", "NFKC"}};
  CHECK(has(error_text([&] { pre_of(json); }), "have no name in GGUF"));
}

TEST_CASE("published tokenizers get the names that their GGUFs have") {
  if (!have_shared("tokenizers")) return;
  const auto pre = [](const std::string& file) {
    return std::string(tokens_of_json(read_bytes(shared_dir() / "tokenizers" / file)).pre);
  };
  CHECK(pre("llama3-tokenizer.json") == "llama-bpe");
  CHECK(pre("bpe-qwen2-1k-tokenizer.json") == "qwen2");
  CHECK(pre("bpe-gpt2-1k-tokenizer.json") == "gpt-2");
}

TEST_CASE("a byte-level BPE keeps pieces, merges and kinds") {
  const auto json = nlohmann::json::parse(read_bytes(tokenizer_data("byte.tokenizer.json")));
  const GgufTokens tokens = tokens_of_json(json.dump());
  CHECK(tokens.model == "gpt2");
  REQUIRE(tokens.merges.size() == json["model"]["merges"].size());
  CHECK(tokens.merges[0] == json["model"]["merges"][0][0].get<std::string>() + " " +
                                json["model"]["merges"][0][1].get<std::string>());
  CHECK(tokens.pieces[0] == "<|endoftext|>");
  CHECK(tokens.types[0] == static_cast<int32_t>(TokenKind::Control));
  CHECK(tokens.types[5] == static_cast<int32_t>(TokenKind::Normal));
}

TEST_CASE("a SentencePiece model gives the same ids from GGUF's arrays") {
  const Vocabulary v = read_sentencepiece(tokenizer_data("bpe.model"));
  const auto tokenizer = make_sentencepiece(v);
  const GgufTokens tokens = gguf_tokens(v, *tokenizer);
  CHECK(tokens.model == "llama");
  Vocabulary back;
  back.pieces = tokens.pieces;
  back.scores = tokens.scores;
  back.types = tokens.types;
  back.bos = tokenizer->special().bos;
  back.eos = tokenizer->special().eos;
  back.unk = tokenizer->special().unk;
  back.add_space_prefix = tokens.add_space_prefix;
  back.remove_extra_whitespaces = tokens.remove_extra_whitespaces;
  check_goldens(*make_sentencepiece(back), tokenizer_data("bpe.golden.json"));
}

TEST_CASE("the merges of a BPE with byte fallback become scores that merge in the same order") {
  auto json = nlohmann::json::parse(read_bytes(tokenizer_data("spm.tokenizer.json")));
  json["normalizer"] = {
      {"type", "Sequence"},
      {"normalizers",
       {{{"type", "Prepend"}, {"prepend", "\u2581"}},
        {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "\u2581"}}}}};
  json["decoder"] = {{"type", "Sequence"},
                     {"decoders",
                      {{{"type", "Replace"}, {"pattern", {{"String", "\u2581"}}}, {"content", " "}},
                       {{"type", "ByteFallback"}},
                       {{"type", "Fuse"}},
                       {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}}}};
  const std::string text = json.dump();
  const auto tokenizer = make_bpe(*parse_hf_tokenizer(text, "tokenizer.json"));
  const GgufTokens tokens = tokens_of_json(text);
  CHECK(tokens.model == "llama");
  CHECK(tokens.add_space_prefix);
  Vocabulary v;
  v.pieces = tokens.pieces;
  v.scores = tokens.scores;
  v.types = tokens.types;
  v.add_bos = false;
  const auto back = make_sentencepiece(v);
  for (const char* sample :
       {"Once upon a time", "two  spaces", "naïve – 中文 🙂", "the thethe", ""}) {
    CAPTURE(sample);
    CHECK(back->encode(sample) == tokenizer->encode(sample));
  }
}

TEST_CASE("user-defined pieces are written with real spaces, as llama.cpp looks for them") {
  Vocabulary v = read_sentencepiece(tokenizer_data("bpe.model"));
  v.pieces.push_back("\xE2\x96\x81\xE2\x96\x81");
  v.scores.push_back(0);
  v.types.push_back(static_cast<int32_t>(TokenKind::UserDefined));
  const auto tokenizer = make_sentencepiece(v);
  const GgufTokens tokens = gguf_tokens(v, *tokenizer);
  CHECK(tokens.pieces.back() == "  ");
  CHECK(tokens.pieces[static_cast<size_t>(tokenizer->find("\xE2\x96\x81the"))] ==
        "\xE2\x96\x81the");
}

TEST_CASE("there are as many tokens as the embedding has rows") {
  GgufTokens tokens;
  tokens.pieces = {"a", "b"};
  tokens.types = {1, 1};
  tokens.scores = {0, -1};
  fit_to_rows(tokens, 4);
  CHECK(tokens.pieces == std::vector<std::string>{"a", "b", "[PAD2]", "[PAD3]"});
  CHECK(tokens.types == std::vector<int32_t>{1, 1, 5, 5});
  CHECK(tokens.scores.size() == 4);
  fit_to_rows(tokens, 1);
  CHECK(tokens.pieces == std::vector<std::string>{"a"});
}

TEST_CASE("a tokenizer that GGUF cannot express is refused") {
  const Vocabulary v = read_sentencepiece(tokenizer_data("unigram.model"));
  CHECK(has(error_text([&] { gguf_tokens(v, *make_sentencepiece(v)); }), "of the kind unigram"));
}

}  // namespace skald::test
