// SentencePiece vocabularies with the tokens that a folder's files add, and those of Phi-3's GGUFs.
#include "models/text/folder_vocabulary.h"

#include <algorithm>

#include "models/files/gguf_head.h"
#include "models/files/memory_file.h"
#include "models/text/open_tokenizer.h"
#include "tests/error_text.h"
#include "tests/temp_folder.h"
#include "tests/tokenizer/files/hf_data.h"

namespace skald::test {
namespace {

using Ids = std::vector<int32_t>;

constexpr auto kUser = static_cast<int32_t>(TokenKind::UserDefined);
constexpr auto kSpecial = static_cast<int32_t>(TokenKind::Control);

Ids ids_with(const Tokenizer& t, const std::string& text, bool parse_special) {
  return t.encode(text, bare(parse_special));
}

void add_piece(Vocabulary& v, const std::string& piece, int32_t type) {
  v.pieces.push_back(piece);
  v.scores.push_back(-1000);
  v.types.push_back(type);
}

// The tokenizer of a GGUF with the vocabulary.
std::unique_ptr<Tokenizer> in_gguf(const Vocabulary& v, const std::string& architecture) {
  GgufHead head;
  head.put_text("general.architecture", architecture);
  head.put_text("tokenizer.ggml.model", "llama");
  head.put_texts("tokenizer.ggml.tokens", v.pieces);
  head.put_floats("tokenizer.ggml.scores", v.scores);
  head.put_ints("tokenizer.ggml.token_type", v.types);
  const std::string text = head.text();
  const MemoryFile file(text, static_cast<int64_t>(text.size()));
  return open_tokenizer(file.path());
}

}  // namespace

TEST_CASE("a tokenizer.model has the tokens that the files beside it list") {
  TempFolder temp;
  const auto write = [&](const std::string& added, const std::string& config) {
    temp.write("tokenizer.model", read_bytes(tokenizer_data("bpe.model")));
    temp.write("added_tokens.json", added);
    temp.write("tokenizer_config.json", config);
    return temp.path();
  };
  const auto plain = make_sentencepiece(read_sentencepiece(tokenizer_data("bpe.model")));
  const int32_t first = plain->vocab_size();
  const std::string next = std::to_string(first + 1);
  const auto folder = write(R"({"<|im_end|>": )" + std::to_string(first) + R"(, "<|im_start|>": )" +
                                next + "}",
                            R"({"add_bos_token": false, "added_tokens_decoder": {
        "2": {"content": "</s>", "special": false, "rstrip": true, "lstrip": false},
        "6": {"content": "<tool>", "special": true, "normalized": false},
        ")" + next + R"(": {"content": "<|im_start|>", "special": false, "rstrip": true}}})");
  const auto t = open_tokenizer(folder);
  CHECK(t->vocab_size() == first + 2);
  CHECK_FALSE(t->special().add_bos);
  CHECK(t->is_control(first));  // ends a turn, whatever the file says
  CHECK(t->kind(first + 1) == TokenKind::UserDefined);
  CHECK(t->is_control(6));
  CHECK(ids_with(*plain, "<tool>", false).back() == 6);
  CHECK(ids_with(*t, "<tool>", false) != ids_with(*plain, "<tool>", false));
  CHECK(ids_with(*t, "<tool>", true) == Ids{6});
  CHECK(ids_with(*t, "<|im_start|>\n<|im_end|></s> ", true) == Ids{first + 1, first, 2});
  const Ids user = ids_with(*t, "<|im_end|>", false);
  CHECK(std::find(user.begin(), user.end(), first) == user.end());

  // As transformers and llama.cpp's converter read it: the configuration counts.
  const auto prefixed = [&](const std::string& config) {
    const auto opened = open_tokenizer(write("{}", config));
    return opened->decode(ids_with(*opened, "fox", false)) == "fox" &&
           opened->piece(ids_with(*opened, "fox", false).front()).starts_with("\xE2\x96\x81");
  };
  CHECK(prefixed("{}"));
  CHECK(prefixed(R"({"add_prefix_space": true})"));
  CHECK(prefixed(R"({"add_prefix_space": null})"));
  CHECK_FALSE(prefixed(R"({"add_prefix_space": false})"));

  const auto refusal = [&](const std::string& added, const std::string& config) {
    return error_text([&] { open_tokenizer(write(added, config)); });
  };
  CHECK(has(refusal(R"({"a": -1})", "{}"), "added_tokens.json: token 'a' has the id -1"));
  CHECK(has(refusal(R"({"a": "1"})", "{}"), "added_tokens.json: a: "));
  CHECK(has(refusal("{}", R"({"added_tokens_decoder": {"x": {"content": "a"}}})"),
            "added_tokens_decoder: 'x': expected a token id"));
  CHECK(has(refusal("{}", R"({"added_tokens_decoder": {"9": {"content": "a", "lstrip": true}}})"),
            "the token 'a' has lstrip"));
}

TEST_CASE("a user's text never ends a turn, even if the file marks the token as user-defined") {
  Vocabulary v = as_gguf_holds_it(read_sentencepiece(tokenizer_data("bpe.model")));
  const auto id = static_cast<int32_t>(v.pieces.size());
  add_piece(v, "<end_of_turn>", kUser);
  const auto t = in_gguf(v, "gemma2");
  CHECK(t->is_control(id));
  CHECK(ids_with(*t, "<end_of_turn>", true) == Ids{id});
  const Ids user = ids_with(*t, "<end_of_turn>", false);
  CHECK(std::find(user.begin(), user.end(), id) == user.end());
}

// As in Phi-3's own tokenizer.json, and as llama.cpp has it.
TEST_CASE("Phi-3's markers in a GGUF take the white space behind them, but not all of them do") {
  Vocabulary v = as_gguf_holds_it(read_sentencepiece(tokenizer_data("bpe.model")));
  v.types[0] = v.types[2] = kSpecial;  // as converters mark <unk> and </s>
  const auto user = static_cast<int32_t>(v.pieces.size());
  add_piece(v, "<|user|>", kSpecial);
  add_piece(v, "<|endoftext|>", kSpecial);
  const auto phi3 = in_gguf(v, "phi3"), other = in_gguf(v, "llama");
  CHECK(ids_with(*phi3, "<|user|>\n ", true) == Ids{user});
  CHECK(ids_with(*phi3, "</s> \n", true) == Ids{2});
  for (const std::string text : {"<unk> \n", "<s> \n", "<|endoftext|> \n"}) {
    CAPTURE(text);
    CHECK(ids_with(*phi3, text, true) == ids_with(*other, text, true));
    CHECK(ids_with(*phi3, text, true).size() > 1);
  }
}

// transformers 5.24 and llama.cpp both put a space before the text after a marker, though Phi-3's
// tokenizer_config.json has "legacy": false. In other families, transformers heeds it.
TEST_CASE("legacy in tokenizer_config.json does not count for Phi-3's tokenizer.json") {
  TempFolder temp;
  Json json = hf_json("spm");
  json["normalizer"] = Json::parse(R"({"type": "Sequence", "normalizers": [
      {"type": "Prepend", "prepend": "▁"},
      {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]})");
  json["decoder"] = {{"type", "Fuse"}};
  temp.write("tokenizer.json", json.dump());
  temp.write("tokenizer_config.json", R"({"legacy": false})");
  const auto first_piece = [&](const char* model_type) {
    temp.write("config.json", Json({{"model_type", model_type}}).dump());
    const auto t = open_tokenizer(temp.path());
    return std::string(t->piece(ids_with(*t, "</s>fox", true).at(1)));
  };
  CHECK(first_piece("phi3").starts_with("\xE2\x96\x81"));
  CHECK_FALSE(first_piece("llama").starts_with("\xE2\x96\x81"));
}

}  // namespace skald::test
