#include "tokenizer/files/gguf_tokens.h"

#include <algorithm>
#include <unordered_map>

#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "tokenizer/bpe/pre_tokenizer.h"
#include "tokenizer/files/tokenizer_json.h"
#include "tokenizer/text/ascii.h"
#include "tokenizer/text/utf8.h"

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

// The patterns of the pre-tokenizer in order, as a GGUF's reader applies them to a text.
class CuttingPatterns {
 public:
  explicit CuttingPatterns(const BpeVocabulary& v) : v_(v) {}

  // nullopt: the pre-tokenizer does not consist of such patterns alone.
  std::optional<std::vector<std::string>> of(const JsonPlace& json) {
    if (!read(json)) return std::nullopt;
    return std::move(patterns_);
  }

 private:
  bool read(const JsonPlace& json) {
    const std::string_view type = json["type"].text();
    if (type == "Sequence") {
      const auto steps = json["pretokenizers"].elements();
      return std::all_of(steps.begin(), steps.end(), [&](const auto& s) { return read(s); });
    }
    if (bytes_) return read_after_bytes(json, type);
    if (type == "ByteLevel") {
      bytes_ = true;
      if (json.boolean_or("use_regex", true)) patterns_.emplace_back(kGpt2Pattern);
      return !json.boolean_or("add_prefix_space", true);
    }
    if (type == "Digits") {
      patterns_.emplace_back(json.boolean_or("individual_digits", false) ? R"(\p{N})"
                                                                         : R"(\p{N}+)");
      return true;
    }
    // GGUF's pattern also contains what has become punctuation since Unicode 8.
    if (type == "Punctuation" && json.text_or("behavior", "Isolated") == "Contiguous") {
      patterns_.emplace_back(kMarksPattern);
      return true;
    }
    return read_split(json, type);
  }

  // A pattern for ASCII alone finds the same in bytes as in the text.
  bool read_after_bytes(const JsonPlace& json, std::string_view type) {
    if (type == "Digits" && !json.boolean_or("individual_digits", false)) {
      return merges_keep_digits_apart();
    }
    return read_split(json, type) && patterns_.back() == kThreeAsciiDigitsPattern;
  }

  bool read_split(const JsonPlace& json, std::string_view type) {
    const bool split = type == "Split" && json["behavior"].text() == "Isolated" &&
                       !json.boolean_or("invert", false) && json["pattern"].has("Regex");
    if (split) patterns_.push_back(json["pattern"]["Regex"].text());
    return split;
  }

  // True: no merge joins a digit of the byte alphabet and another character, so cutting between
  // them changes no ids.
  bool merges_keep_digits_apart() const {
    const auto digit = [](std::string_view character) {
      constexpr std::string_view kDigits[] = {"\u00b2", "\u00b3", "\u00b9",
                                              "\u00bc", "\u00bd", "\u00be"};
      return (!character.empty() && is_digit(character.front())) ||
             std::find(std::begin(kDigits), std::end(kDigits), character) != std::end(kDigits);
    };
    return std::none_of(v_.merges.begin(), v_.merges.end(), [&](const BpeVocabulary::Merge& m) {
      size_t last = m.left.size();
      while (last > 0 && (static_cast<uint8_t>(m.left[--last]) & 0xC0) == 0x80) {
      }
      const std::string_view right = m.right;
      return !m.left.empty() && !right.empty() &&
             digit(std::string_view(m.left).substr(last)) !=
                 digit(right.substr(0, utf8_length(right)));
    });
  }

  const BpeVocabulary& v_;
  std::vector<std::string> patterns_;
  bool bytes_ = false;  // ByteLevel was read
};

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
    const auto patterns = CuttingPatterns(*v).of(json["pre_tokenizer"]);
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
