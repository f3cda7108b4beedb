#include "models/text/gguf_bpe.h"

#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "tokenizer/files/gguf_tokens.h"
#include "tokenizer/text/tokenizer.h"

namespace skald {
namespace {

BpeVocabulary::Merge parse_merge(std::string_view text, size_t rank, const std::string& path) {
  const size_t space = text.find(' ', 1);
  if (space == text.npos || space + 1 == text.size()) {
    fail(Exit::Model, path, ": tokenizer.ggml.merges: ", rank, " is '", printable(text, 40),
         "', expected two pieces with a space between");
  }
  return {std::string(text.substr(0, space)), std::string(text.substr(space + 1))};
}

void set_rules(const GgufFile& file, BpeVocabulary& v) {
  const std::string_view pre = file.metadata().text_or("tokenizer.ggml.pre", "");
  if (pre.empty()) {
    fail(Exit::Model, file.path(),
         ": tokenizer.ggml.pre is missing, so the pre-tokenizer is unknown; convert the model "
         "again "
         "with a newer converter");
  }
  auto named = named_pre_tokenizer(pre, file.path());
  if (!named) {
    fail(Exit::Model, file.path(), ": tokenizer.ggml.pre is '", printable(pre, 40),
         "', which skald does not support; use the model's Hugging Face folder, which contains "
         "the "
         "rules");
  }
  v.pre_tokenizer = std::move(named->rules);
  v.ignore_merges = named->ignore_merges;
  if (named->nfc) v.normalizer.add(UnicodeForm::Nfc);
  v.add_bos = file.metadata().boolean_or("tokenizer.ggml.add_bos_token", named->add_bos);
  v.add_eos = file.metadata().boolean_or("tokenizer.ggml.add_eos_token", false);
}

// Spaces become "▁", and the whole text is merged without being cut before. All models of the
// kind begin a text with bos.
void set_character_rules(const GgufFile& file, BpeVocabulary& v) {
  constexpr const char* kSpace = "\xE2\x96\x81";
  v.byte_level = false;
  v.byte_fallback = v.fuse_unk = true;
  v.normalizer.add(Normalizer::Replace{Regex(" ", file.path()), kSpace});
  v.decoder.space = kSpace;
  v.decoder.byte_fallback = true;
  v.add_bos = true;
  v.add_eos = file.metadata().boolean_or("tokenizer.ggml.add_eos_token", false);
}

void add_marked_tokens(const GgufMetadata& metadata, BpeVocabulary& v) {
  if (!metadata.find("tokenizer.ggml.token_type")) {
    for (const int32_t id : {v.bos, v.eos, v.pad}) {
      if (id >= 0 && static_cast<size_t>(id) < v.pieces.size()) {
        v.added.push_back({.id = id, .text = v.pieces[id], .special = true});
      }
    }
    return;
  }
  const std::vector<int64_t> types = metadata.ints("tokenizer.ggml.token_type");
  if (types.size() != v.pieces.size()) {
    fail(Exit::Model, v.source, ": ", types.size(), " token types for ", v.pieces.size(),
         " tokens");
  }
  for (size_t id = 0; id < types.size(); ++id) {
    const bool special = types[id] == static_cast<int64_t>(TokenKind::Control);
    if (!special && types[id] != static_cast<int64_t>(TokenKind::UserDefined)) continue;
    v.added.push_back({.id = static_cast<int32_t>(id), .text = v.pieces[id], .special = special});
  }
}

}  // namespace

BpeVocabulary gguf_bpe(const GgufFile& file) {
  const GgufMetadata& metadata = file.metadata();
  BpeVocabulary v;
  v.source = file.path();
  v.raw_user_defined = true;
  v.last_merge_wins = false;
  for (const std::string_view piece : metadata.strings("tokenizer.ggml.tokens")) {
    v.pieces.emplace_back(piece);
  }
  for (const std::string_view merge : metadata.strings("tokenizer.ggml.merges")) {
    v.merges.push_back(parse_merge(merge, v.merges.size(), file.path()));
  }
  v.bos = metadata.token_id("tokenizer.ggml.bos_token_id");
  v.eos = metadata.token_id("tokenizer.ggml.eos_token_id");
  v.unk = metadata.token_id("tokenizer.ggml.unknown_token_id");
  v.pad = metadata.token_id("tokenizer.ggml.padding_token_id");
  v.ends = {metadata.token_id("tokenizer.ggml.eot_token_id"),
            metadata.token_id("tokenizer.ggml.eom_token_id")};
  add_marked_tokens(metadata, v);
  if (metadata.text_or("tokenizer.ggml.model", "") == kMergesOfCharacters) {
    set_character_rules(file, v);
  } else {
    set_rules(file, v);
  }
  return v;
}

}  // namespace skald
