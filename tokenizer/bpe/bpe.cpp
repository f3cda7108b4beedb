#include "tokenizer/bpe/bpe.h"

#include <algorithm>
#include <unordered_map>

#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "tokenizer/bpe/added_tokens.h"
#include "tokenizer/bpe/bpe_model.h"
#include "tokenizer/bpe/byte_alphabet.h"
#include "tokenizer/chat/turn_ends.h"
#include "tokenizer/sentencepiece/sentencepiece_model.h"
#include "tokenizer/text/text_ends.h"
#include "tokenizer/text/utf8.h"

namespace skald {
namespace {

constexpr size_t kMostTextBytes = size_t{256} << 20;
constexpr size_t kMostVocabularyBytes = size_t{256} << 20;

// Puts each added token into `pieces` at its id.
void place_added(BpeVocabulary& v) {
  for (AddedToken& token : v.added) {
    if (token.id < 0 || static_cast<size_t>(token.id) >= kMaxPieces) {
      fail(Exit::Model, v.source, ": the added token '", printable(token.text, 40), "' has the id ",
           token.id, ", expected 0 to ", kMaxPieces - 1);
    }
    const size_t id = static_cast<size_t>(token.id);
    if (id >= v.pieces.size()) v.pieces.resize(id + 1);
    if (v.pieces[id].empty()) v.pieces[id] = token.text;
    if (v.pieces[id] != token.text && !v.raw_user_defined) {
      fail(Exit::Model, v.source, ": the added token '", printable(token.text, 40), "' has the id ",
           id, ", which is '", printable(v.pieces[id], 40), "'");
    }
  }
}

void check_sizes(const BpeVocabulary& v) {
  if (v.pieces.empty() || v.pieces.size() > kMaxPieces) {
    fail(Exit::Model, v.source, ": ", v.pieces.size(), " tokens, expected 1 to ", kMaxPieces);
  }
  size_t bytes = 0;
  for (size_t id = 0; id < v.pieces.size(); ++id) {
    bytes += v.pieces[id].size();
    if (v.pieces[id].size() > kMaxPieceBytes || bytes > kMostVocabularyBytes) {
      fail(Exit::Model, v.source, ": token ", id, " has ", v.pieces[id].size(), " bytes (at most ",
           kMaxPieceBytes, " for one, ", kMostVocabularyBytes, " for all)");
    }
  }
  for (const auto& [what, id] : {std::pair("bos", v.bos), std::pair("eos", v.eos),
                                 std::pair("unk", v.unk), std::pair("pad", v.pad)}) {
    if (id < -1 || id >= static_cast<int64_t>(v.pieces.size())) {
      fail(Exit::Model, v.source, ": the ", what, " token is ", id, ", but there are ",
           v.pieces.size(), " tokens");
    }
  }
}

class Bpe final : public Tokenizer {
 public:
  explicit Bpe(BpeVocabulary vocabulary) : v_(std::move(vocabulary)) {
    const size_t in_model = v_.pieces.size();
    std::vector<bool> added_only(in_model);
    for (size_t id = 0; id < in_model; ++id) added_only[id] = v_.pieces[id].empty();
    place_added(v_);
    check_sizes(v_);
    added_only.resize(v_.pieces.size(), true);
    special_ = {
        v_.bos, v_.eos, v_.unk, v_.pad, v_.add_bos && v_.bos >= 0, v_.add_eos && v_.eos >= 0};
    add_tokens();

    std::unordered_map<std::string_view, int32_t> text_ids;
    std::vector<bool> control(tokens_.size());
    text_ids.reserve(in_model);
    ids_.reserve(tokens_.size());
    for (size_t id = 0; id < tokens_.size(); ++id) {
      control[id] = tokens_[id].kind == TokenKind::Control;
      if (v_.pieces[id].empty()) continue;
      if (!added_only[id]) text_ids.emplace(v_.pieces[id], static_cast<int32_t>(id));
      ids_.emplace(v_.pieces[id], static_cast<int32_t>(id));
    }
    model_ = std::make_unique<BpeModel>(v_, text_ids, control);
    v_.merges = {};
  }

  std::vector<int32_t> encode(std::string_view text, const EncodeOptions& options) const override {
    if (text.size() > kMostTextBytes) {
      fail(Exit::Failed, "a text of ", text.size(), " bytes is too long to tokenize (at most ",
           kMostTextBytes, ")");
    }
    std::string repaired;
    if (!utf8_valid(text)) {
      repaired = utf8_repaired(text);
      text = repaired;
    }
    return with_ends(special_, options,
                     [&](std::vector<int32_t>& ids) { append_text(text, options, ids); });
  }

  int32_t vocab_size() const override { return static_cast<int32_t>(tokens_.size()); }
  std::string_view name() const override {
    if (v_.byte_level) return "byte-level BPE";
    return v_.byte_fallback ? "BPE with byte fallback" : "BPE";
  }
  const SpecialTokens& special() const override { return special_; }
  TokenKind kind(int32_t id) const override { return token(id).kind; }
  std::string_view piece(int32_t id) const override {
    return known(id) ? std::string_view(v_.pieces[id]) : "";
  }
  int32_t find(std::string_view piece) const override {
    const auto found = ids_.find(piece);
    return found == ids_.end() ? -1 : found->second;
  }
  std::string_view piece_bytes(int32_t id) const override { return token(id).bytes; }
  bool joins(int32_t id) const override { return token(id).joins; }
  bool starts_word(int32_t id) const override { return token(id).bytes.starts_with(' '); }
  LeadingSpace leading_space() const override {
    return v_.decoder.strip_space ? LeadingSpace::DropOne : LeadingSpace::Keep;
  }
  BrokenCharacter broken_character() const override {
    return v_.byte_level ? BrokenCharacter::Whole : BrokenCharacter::EachByte;
  }

 private:
  struct Token {
    TokenKind kind = TokenKind::Normal;
    bool joins = false;
    std::string bytes;
  };

  bool known(int32_t id) const { return id >= 0 && id < vocab_size(); }
  const Token& token(int32_t id) const {
    static const Token kNone = {TokenKind::Unused, false, ""};
    return known(id) ? tokens_[id] : kNone;
  }

  void add_tokens() {
    tokens_.resize(v_.pieces.size());
    for (size_t id = 0; id < tokens_.size(); ++id) {
      if (v_.pieces[id].empty()) tokens_[id].kind = TokenKind::Unused;
      const bool byte = v_.decoder.byte_fallback && byte_of_piece(v_.pieces[id]) >= 0;
      if (byte) tokens_[id].kind = TokenKind::Byte;
    }
    for (AddedToken& added : v_.added) {
      // A one-character token is ordinary text; as a control token, it would vanish from texts.
      if (utf8_length(added.text) == added.text.size()) added.special = false;
      if (added.text.empty()) continue;
      if (ends_turn(added.text)) added.special = true;
      tokens_[added.id].kind = added.special ? TokenKind::Control : TokenKind::UserDefined;
    }
    std::vector<int32_t> control = v_.ends;
    control.insert(control.end(), {v_.bos, v_.eos});
    for (const int32_t id : control) {
      if (kind(id) == TokenKind::UserDefined) make_control(id);
    }
    find_added();
    for (size_t id = 0; id < tokens_.size(); ++id) {
      Token& token = tokens_[id];
      if (token.kind == TokenKind::Control) {
        token.bytes.clear();
      } else if (token.bytes.empty()) {
        token.bytes = text_of(token.kind, v_.pieces[id]);
      }
      // A control token between two parts of a character does not separate them.
      token.joins = v_.byte_level ? token.bytes.empty() || !utf8_valid(token.bytes)
                                  : !utf8_valid(token.bytes);
    }
    if (v_.unk >= 0 && tokens_[v_.unk].kind != TokenKind::Control) {
      tokens_[v_.unk].kind = TokenKind::Unknown;
    }
  }

  // A token that is matched in the normalized text also decodes to the normalized text.
  void find_added() {
    for (const AddedToken& added : v_.added) {
      if (!added.normalized || v_.normalizer.empty()) {
        raw_.add(added);
        continue;
      }
      AddedToken seen = added;
      seen.text = v_.normalizer.apply(added.text, true);
      tokens_[added.id].bytes = text_of(tokens_[added.id].kind, seen.text);
      normalized_.add(std::move(seen));
    }
    raw_.finish();
    normalized_.finish();
  }

  void make_control(int32_t id) {
    tokens_[id].kind = TokenKind::Control;
    for (AddedToken& added : v_.added) {
      if (added.id == id) added.special = true;
    }
  }

  std::string text_of(TokenKind kind, const std::string& piece) const {
    if (kind == TokenKind::Byte) return {static_cast<char>(byte_of_piece(piece))};
    std::string text;
    const bool raw = v_.raw_user_defined && kind == TokenKind::UserDefined;
    if (v_.byte_level && !raw && append_bytes_of(piece, text)) return text;
    if (v_.decoder.space.empty()) return piece;
    const std::string& space = v_.decoder.space;
    size_t from = 0;
    for (size_t at; (at = piece.find(space, from)) != piece.npos; from = at + space.size()) {
      text.append(piece, from, at - from).append(" ");
    }
    return text.append(piece, from);
  }

  void append_text(std::string_view text, const EncodeOptions& options,
                   std::vector<int32_t>& ids) const {
    BpeModel::Encoder encoder(*model_);
    PreTokenizer::Place place = {true, options.starts_text};
    const auto token = [&](int32_t id) {
      ids.push_back(id);
      place = {false, v_.legacy};
    };
    for (const AddedTokens::Part& part : raw_.split(text, options.parse_special)) {
      if (part.id >= 0) {
        token(part.id);
        continue;
      }
      std::string_view section = text.substr(part.span.begin, part.span.end - part.span.begin);
      std::string changed;
      if (!v_.normalizer.empty()) {
        changed = v_.normalizer.apply(std::string(section), place.prefix);
        section = changed;
      }
      for (const AddedTokens::Part& inner : normalized_.split(section, options.parse_special)) {
        if (inner.id >= 0) {
          token(inner.id);
          continue;
        }
        const auto parts = v_.pre_tokenizer.cut(
            section.substr(inner.span.begin, inner.span.end - inner.span.begin), place);
        for (const Span& span : parts->spans) {
          encoder.append(parts->text.substr(span.begin, span.end - span.begin), ids);
        }
        place.starts_text = false;
      }
    }
  }

  BpeVocabulary v_;
  SpecialTokens special_;
  std::vector<Token> tokens_;
  std::unordered_map<std::string_view, int32_t> ids_;  // views of v_.pieces
  AddedTokens raw_, normalized_;
  std::unique_ptr<BpeModel> model_;
};

}  // namespace

std::unique_ptr<Tokenizer> make_bpe(BpeVocabulary vocabulary) {
  return std::make_unique<Bpe>(std::move(vocabulary));
}

}  // namespace skald
