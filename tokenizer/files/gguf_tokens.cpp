#include "tokenizer/files/gguf_tokens.h"

#include <algorithm>
#include <unordered_map>

#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "tokenizer/bpe/pre_tokenizer.h"
#include "tokenizer/files/tokenizer_json.h"

namespace skald {
namespace {

constexpr int32_t kUnused = static_cast<int32_t>(TokenKind::Unused);

// Pieces and types. An id without a token gets a placeholder name.
GgufTokens tokens_of(const Tokenizer& tokenizer, std::string_view model) {
  GgufTokens out;
  out.model = model;
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    std::string_view piece = tokenizer.piece(id);
    // llama.cpp looks for user-defined tokens in the text as it came, with real spaces.
    if (model == "llama" && tokenizer.kind(id) == TokenKind::UserDefined) {
      piece = tokenizer.piece_bytes(id);
    }
    out.pieces.push_back(piece.empty() ? concat("[PAD", id, "]") : std::string(piece));
    out.types.push_back(piece.empty() ? kUnused : static_cast<int32_t>(tokenizer.kind(id)));
  }
  return out;
}

std::vector<std::string> merges_of(const BpeVocabulary& v) {
  std::vector<std::string> merges;
  merges.reserve(v.merges.size());
  for (const BpeVocabulary::Merge& merge : v.merges) {
    merges.push_back(merge.left + " " + merge.right);
  }
  return merges;
}

// The patterns of the pre-tokenizer in order; nullopt if it does not consist of patterns alone.
std::optional<std::vector<std::string>> cutting_patterns(const JsonPlace& json) {
  const std::string_view type = json["type"].text();
  if (type == "Sequence") {
    std::vector<std::string> all;
    for (const JsonPlace& step : json["pretokenizers"].elements()) {
      const auto found = cutting_patterns(step);
      if (!found) return std::nullopt;
      all.insert(all.end(), found->begin(), found->end());
    }
    return all;
  }
  if (type == "ByteLevel") {
    if (json.boolean_or("add_prefix_space", true)) return std::nullopt;
    if (!json.boolean_or("use_regex", true)) return std::vector<std::string>{};
    return std::vector<std::string>{std::string(kGpt2Pattern)};
  }
  if (type == "Digits" && json.boolean_or("individual_digits", false)) {
    return std::vector<std::string>{R"(\p{N})"};
  }
  const bool split = type == "Split" && json["behavior"].text() == "Isolated" &&
                     !json.boolean_or("invert", false) && json["pattern"].has("Regex");
  if (!split) return std::nullopt;
  return std::vector<std::string>{json["pattern"]["Regex"].text()};
}

// Scores that make SentencePiece merge in the order of the merge list.
std::vector<float> scores_of_merges(const BpeVocabulary& v,
                                    const std::vector<std::string>& pieces) {
  std::unordered_map<std::string, size_t> rank;
  rank.reserve(v.merges.size());
  for (size_t i = 0; i < v.merges.size(); ++i) {
    rank.emplace(v.merges[i].left + v.merges[i].right, i);  // the first of equal merges counts
  }
  std::vector<float> scores;
  for (const std::string& piece : pieces) {
    const auto found = rank.find(piece);
    // Pieces that no merge makes rank below all merges.
    const size_t place = found == rank.end() ? v.merges.size() : found->second;
    scores.push_back(-static_cast<float>(place));
  }
  return scores;
}

std::vector<float> scores_of(const Vocabulary& v) {
  if (!v.scores.empty()) return v.scores;
  std::vector<float> scores;
  for (size_t id = 0; id < v.pieces.size(); ++id) scores.push_back(-static_cast<float>(id));
  return scores;
}

// True if the tokenizer adds a space before a text.
bool puts_prefix(const Tokenizer& tokenizer) {
  const std::vector<int32_t> ids = tokenizer.encode("a", {.add_bos = false, .add_eos = false});
  return !ids.empty() && tokenizer.piece(ids.front()).starts_with("\xE2\x96\x81");
}

}  // namespace

GgufTokens gguf_tokens(const Vocabulary& v, const Tokenizer& tokenizer) {
  if (v.unigram || !v.charsmap.empty()) {
    fail(Exit::Model, v.source, ": is a SentencePiece model ",
         v.unigram ? "of the kind unigram" : "with normalization rules",
         ", which skald cannot write into a GGUF; quantize from a GGUF of the model instead");
  }
  GgufTokens out = tokens_of(tokenizer, "llama");
  out.scores = scores_of(v);
  out.add_space_prefix = v.add_space_prefix;
  out.remove_extra_whitespaces = v.remove_extra_whitespaces;
  out.legacy = v.legacy;
  return out;
}

GgufTokens gguf_tokens(const HfTokenizerFiles& files, const Tokenizer& tokenizer) {
  const std::string& source = files.source;
  const std::optional<BpeVocabulary> v = parse_hf_tokenizer(files.json, source, files.config);
  check(v.has_value(), "the tokenizer was made of this file");
  if (v->byte_level) {
    const TokenizerJson file = parse_tokenizer_json(files.json, source);
    const JsonPlace json(file.root, source);
    const JsonPlace normalizer = json["normalizer"];
    const bool nfc = !normalizer.is_null() && normalizer["type"].text() == "NFC";
    const auto patterns = cutting_patterns(json["pre_tokenizer"]);
    GgufTokens out = tokens_of(tokenizer, "gpt2");
    if (patterns && (nfc || normalizer.is_null())) {
      out.pre = pre_tokenizer_name(*patterns, nfc, v->ignore_merges);
    }
    if (out.pre.empty()) {
      fail(Exit::Model, source, ": its pre-tokenizer and normalizer have no name in GGUF");
    }
    out.merges = merges_of(*v);
    return out;
  }
  if (!v->byte_fallback) {
    fail(Exit::Model, source,
         ": is a BPE over characters without byte fallback, which skald cannot write into a GGUF");
  }
  if (files.keeps_merges) {
    GgufTokens out = tokens_of(tokenizer, kMergesOfCharacters);
    out.pre = kMergesOfCharacters;
    out.merges = merges_of(*v);
    return out;
  }
  GgufTokens out = tokens_of(tokenizer, "llama");
  out.add_space_prefix = puts_prefix(tokenizer);
  out.legacy = v->legacy;
  const std::optional<Vocabulary>& model = files.model;
  const bool same = model && !model->unigram && model->pieces.size() <= out.pieces.size() &&
                    std::equal(model->pieces.begin(), model->pieces.end(), out.pieces.begin());
  out.scores = same ? scores_of(*model) : scores_of_merges(*v, out.pieces);
  out.scores.resize(out.pieces.size(), 0);
  return out;
}

void fit_to_rows(GgufTokens& tokens, int64_t rows) {
  const auto count = static_cast<size_t>(rows);
  const size_t had = tokens.pieces.size();
  tokens.pieces.resize(count);
  tokens.types.resize(count, kUnused);
  if (!tokens.scores.empty()) tokens.scores.resize(count, 0);
  for (size_t id = had; id < count; ++id) tokens.pieces[id] = concat("[PAD", id, "]");
}

}  // namespace skald
