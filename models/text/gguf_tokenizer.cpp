#include "models/text/gguf_tokenizer.h"

#include <algorithm>

#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "models/files/memory_file.h"
#include "models/text/chat_templates.h"
#include "models/text/folder_vocabulary.h"
#include "models/text/open_tokenizer.h"
#include "tokenizer/chat/turn_ends.h"
#include "tokenizer/files/gguf_tokens.h"
#include "tokenizer/files/tokenizer_json.h"

namespace skald {
namespace {

namespace fs = std::filesystem;

HfTokenizerConfig read_config(const fs::path& folder) {
  const fs::path file = folder / "tokenizer_config.json";
  HfTokenizerConfig config;
  if (fs::exists(file)) {
    config = parse_hf_tokenizer_config(read_json_file(file), printable(file.string()));
  }
  if (const auto legacy = fixed_legacy(folder)) config.legacy = legacy;
  return config;
}

GgufTokens tokens_of_folder(const OpenedModel& opened, const Tokenizer& tokenizer) {
  const fs::path& folder = opened.path;
  const fs::path json = folder / "tokenizer.json", model = folder / "tokenizer.model";
  const bool sentencepiece = tokenizer.name().starts_with("SentencePiece");
  if (sentencepiece) return gguf_tokens(folder_vocabulary(model), tokenizer);
  const HfTokenizerConfig config = read_config(folder);
  const std::string text = read_json_file(json);
  HfTokenizerFiles files{text, printable(json.string()), config, std::nullopt};
  files.keeps_merges = opened.model.config.architecture.starts_with("gemma4");
  if (fs::exists(model)) files.model = read_sentencepiece(model);
  return gguf_tokens(files, tokenizer);
}

void put_special_ids(const ModelTokenizer& tokens, int64_t rows, GgufHead& head,
                     std::vector<std::string>& notes) {
  const SpecialTokens& special = tokens.tokenizer->special();
  const auto put = [&](std::string_view what, int32_t id) {
    if (id >= 0 && id < rows) head.put_u32(concat("tokenizer.ggml.", what, "_token_id"), id);
  };
  put("bos", special.bos);
  put("eos", special.eos);
  put("unknown", special.unk);
  put("padding", special.pad);
  head.put_bool("tokenizer.ggml.add_bos_token", special.add_bos);
  head.put_bool("tokenizer.ggml.add_eos_token", special.add_eos);
  // GGUF can name two stop tokens besides eos. Tokens that every reader knows by their text need no
  // entry.
  std::string_view keys[] = {"eot", "eom"};
  size_t used = 0;
  for (const int32_t id : tokens.stop_ids) {
    const std::string_view piece = tokens.tokenizer->piece(id);
    if (id == special.eos || id >= rows || ends_turn(piece)) continue;
    if (used < std::size(keys)) {
      put(keys[used++], id);
    } else {
      notes.push_back(concat("token ", id, " ", printable(piece, 40),
                             " ends a text of this model, and a GGUF has no place to say so"));
    }
  }
}

void put_templates(const fs::path& folder, GgufHead& head) {
  std::vector<std::string> names;
  for (const NamedTemplate& one : find_chat_templates(folder)) {
    const bool main = one.name == "default";
    const std::string key =
        concat("tokenizer.chat_template", main ? "" : ".", main ? "" : one.name);
    if (head.has(key)) continue;  // a folder may contain it in two files
    head.put_text(key, one.text);
    if (!main) names.push_back(one.name);
  }
  if (!names.empty()) head.put_texts("tokenizer.chat_templates", names);
}

// Texts that show differences between tokenizers: spaces, lines, digits, case, scripts, combining
// marks, symbols, code, long words.
constexpr std::string_view kTexts[] = {
    "Once upon a time, there was a little girl.",
    "  two  spaces   and\ttabs \t and a trailing space ",
    "lines\nand\n\nmore lines\r\n\r\n  indented\n\n\n",
    "1 12 123 1234 12345 3.14159 1,000,000 2026-11-21 0x1F",
    "It's I'm you're they'll we've he'd DON'T WON'T 'quoted'",
    "CamelCase snake_case kebab-case UPPERCASE MiXeD",
    "for (int i = 0; i < n; ++i) { sum += a[i] * b[i]; }  // done",
    "Ünïcödé naïve café Straße œuvre \xE2\x80\x9Cquotes\xE2\x80\x9D \xE2\x80\x94 dash\xE2\x80\xA6",
    "Кириллица, ελληνικά, עברית, العربية, हिन्दी, ไทย, 中文字符, 日本語の文, 한국어",
    "e\xCC\x81 o\xCC\x88 \xF0\x9F\x98\x80\xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x9A\x80",
    "\xE2\x82\xAC \xC2\xB1",
    "http://example.org/path?query=1&x=y#frag user@example.org",
    "supercalifragilisticexpialidocious pneumonoultramicroscopicsilicovolcanoconiosis",
    "",
    " ",
    "\n",
    "a",
    "...",
    "!!??",
    "<s> </s> <|endoftext|> [INST]",
    "\xE2\x96\x81lower one eighth"};

void check_same_tokens(const Tokenizer& folder, const GgufHead& head) {
  const std::string text = head.text();
  const MemoryFile file(text, static_cast<int64_t>(text.size()));
  const auto tokenizer = open_tokenizer(file.path());
  for (const bool special : {false, true}) {
    for (const std::string_view sample : kTexts) {
      EncodeOptions options;
      options.parse_special = special;
      if (folder.encode(sample, options) == tokenizer->encode(sample, options)) continue;
      fail(Exit::Model, "the tokenizer of this folder cannot be written into a GGUF: \"",
           printable(sample, 80), "\" would get other tokens");
    }
  }
}

}  // namespace

std::vector<std::string> put_tokenizer(const OpenedModel& folder, GgufHead& head) {
  std::vector<std::string> notes;
  const ModelTokenizer tokens = open_tokenizer(folder);
  const int64_t rows = folder.model.config.vocab;
  GgufTokens arrays = tokens_of_folder(folder, *tokens.tokenizer);
  if (static_cast<int64_t>(arrays.pieces.size()) > rows) {
    notes.push_back(concat("the tokenizer has ", arrays.pieces.size(), " tokens and the model ",
                           rows, "; those beyond are left out"));
  }
  fit_to_rows(arrays, rows);
  head.put_text("tokenizer.ggml.model", arrays.model);
  head.put_text("tokenizer.ggml.pre", arrays.pre.empty() ? "default" : arrays.pre);
  head.put_texts("tokenizer.ggml.tokens", arrays.pieces);
  if (!arrays.scores.empty()) head.put_floats("tokenizer.ggml.scores", arrays.scores);
  head.put_ints("tokenizer.ggml.token_type", arrays.types);
  if (!arrays.merges.empty()) head.put_texts("tokenizer.ggml.merges", arrays.merges);
  if (arrays.model == "llama") {
    head.put_bool("tokenizer.ggml.add_space_prefix", arrays.add_space_prefix);
    head.put_bool("tokenizer.ggml.remove_extra_whitespaces", arrays.remove_extra_whitespaces);
    head.put_bool("tokenizer.skald.legacy", arrays.legacy);
  }
  put_special_ids(tokens, rows, head, notes);
  put_templates(folder.path, head);
  check_same_tokens(*tokens.tokenizer, head);
  return notes;
}

}  // namespace skald
