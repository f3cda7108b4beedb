#include "tokenizer/sentencepiece/sentencepiece.h"

#include <sentencepiece_processor.h>

#include <algorithm>
#include <bitset>
#include <mutex>
#include <new>
#include <unordered_map>

#include "engine/base/error.h"
#include "tokenizer/sentencepiece/library_vocabulary.h"
#include "tokenizer/sentencepiece/piece_merger.h"
#include "tokenizer/sentencepiece/sentencepiece_model.h"
#include "tokenizer/text/special_matcher.h"
#include "tokenizer/text/text_ends.h"
#include "tokenizer/text/utf8.h"

namespace skald {
namespace {

constexpr std::string_view kSpaceSymbol = "\xE2\x96\x81";  // U+2581, a space inside pieces
constexpr size_t kChunkBytes = size_t{64} << 10;
// The library needs 100 to 230 bytes of memory per byte of text, and 0.5 to 2 s per megabyte.
constexpr size_t kMaxChunkBytes = size_t{16} << 20;

// Places where a long text may be cut without changing a token: between two characters that are not
// neighbours in any piece, so no merge can cross. Stored by bytes (the last byte of one character,
// the first of the next), which takes 8 KB and forbids a few places more than necessary.
class Seams {
 public:
  void forbid_inside(std::string_view piece) {
    for (size_t length; (length = utf8_length(piece)) > 0 && length < piece.size();) {
      joined_.set(at(piece.substr(0, length), piece.substr(length)));
      piece.remove_prefix(length);
    }
  }

  // The length of the first part of text: the whole text, or at least kChunkBytes up to a cut.
  size_t first_part(std::string_view text) const {
    if (text.size() <= kChunkBytes) return text.size();
    for (size_t end = 0; end < text.size();) {
      const std::string_view rest = text.substr(end);
      const size_t length = std::max<size_t>(utf8_length(rest), 1);
      const std::string_view after = rest.substr(length);
      end += length;
      if (end >= kChunkBytes && !after.empty() && !joined_[at(rest.substr(0, length), after)]) {
        return end;
      }
    }
    return text.size();
  }

 private:
  // Returns bytes as the library sees them: a space as U+2581, an invalid byte as U+FFFD.
  static std::string_view seen(std::string_view s) {
    if (s[0] == ' ') return kSpaceSymbol;
    const size_t length = utf8_length(s);
    return length > 0 ? s.substr(0, length) : kReplacementCharacter;
  }
  static size_t at(std::string_view before, std::string_view after) {
    return static_cast<uint8_t>(seen(before).back()) * 256u +
           static_cast<uint8_t>(seen(after).front());
  }

  std::bitset<256 * 256> joined_;
};

class SentencePiece final : public Tokenizer {
 public:
  explicit SentencePiece(Vocabulary vocabulary) : vocabulary_(std::move(vocabulary)) {
    LibraryModel model = library_vocabulary(vocabulary_);
    add_tokens(model);
    in_parts_ = !model.unigram && model.charsmap.empty() && !model.remove_extra_whitespaces;
    if (in_parts_) {
      for (const LibraryModel::Piece& piece : model.pieces) {
        if (piece.kind == TokenKind::Byte) continue;  // no text is merged into "<0x00>"
        seams_.forbid_inside(piece.name);  // returns at once if the name is not valid UTF-8
      }
    } else if (model.add_dummy_prefix) {
      starting_ = load(model);
    }
    model.add_dummy_prefix = false;
    continuing_ = load(model);
  }

  std::vector<int32_t> encode(std::string_view text, const EncodeOptions& options) const override {
    return with_ends(special_, options, [&](std::vector<int32_t>& ids) {
      bool prefix = options.starts_text;
      while (!text.empty()) {
        const SpecialMatcher::Match match =
            options.parse_special ? matcher_.find(text) : SpecialMatcher::Match{text.size(), 0, -1};
        append_text(text.substr(0, match.at), prefix && vocabulary_.add_space_prefix, ids);
        if (match.id < 0) break;
        ids.push_back(match.id);
        text.remove_prefix(match.at + match.length);
        if (tokens_[match.id].strips_right) text.remove_prefix(white_space_before(text));
        prefix = vocabulary_.legacy;
      }
    });
  }

  int32_t vocab_size() const override { return static_cast<int32_t>(tokens_.size()); }
  std::string_view name() const override {
    return vocabulary_.unigram ? "SentencePiece unigram" : "SentencePiece BPE";
  }
  const SpecialTokens& special() const override { return special_; }

  TokenKind kind(int32_t id) const override { return token(id).kind; }
  std::string_view piece(int32_t id) const override {
    return known(id) ? std::string_view(vocabulary_.pieces[id]) : "";
  }
  int32_t find(std::string_view piece) const override {
    const auto found = ids_.find(piece);
    return found == ids_.end() ? -1 : found->second;
  }
  std::string_view piece_bytes(int32_t id) const override { return token(id).bytes; }
  bool joins(int32_t id) const override { return token(id).joins; }
  bool starts_word(int32_t id) const override { return token(id).starts_word; }
  LeadingSpace leading_space() const override {
    if (vocabulary_.remove_extra_whitespaces) return LeadingSpace::DropAll;
    return vocabulary_.add_space_prefix ? LeadingSpace::DropOne : LeadingSpace::Keep;
  }

 private:
  using Library = std::unique_ptr<sentencepiece::SentencePieceProcessor>;
  struct Token {
    TokenKind kind = TokenKind::Unused;
    bool joins = false, starts_word = false, strips_right = false;
    std::string bytes;
  };

  bool known(int32_t id) const { return id >= 0 && id < vocab_size(); }
  const Token& token(int32_t id) const {
    static const Token kNone;
    return known(id) ? tokens_[id] : kNone;
  }

  void add_tokens(const LibraryModel& model) {
    const Vocabulary& v = vocabulary_;
    special_ = {v.bos, v.eos, v.unk, v.pad, v.add_bos && v.bos >= 0, v.add_eos && v.eos >= 0};
    byte_fallback_ = model.byte_fallback;
    for (size_t id = 0; id < v.pieces.size(); ++id) {
      const std::string& piece = v.pieces[id];
      Token token;
      token.kind = static_cast<TokenKind>(v.types[id]);
      if (token.kind == TokenKind::Byte) {
        token.bytes = static_cast<char>(byte_of_piece(piece));
        token.joins = true;
      } else if (token.kind == TokenKind::Unknown) {
        token.bytes = v.unk_surface;
        token.joins = !utf8_valid(token.bytes);
      } else if (token.kind != TokenKind::Control) {
        token.bytes = with_spaces(piece);
        token.joins = !utf8_valid(token.bytes);
        token.starts_word = piece.starts_with(kSpaceSymbol) ||
                            (token.kind == TokenKind::UserDefined && piece.starts_with(' '));
      }
      const int32_t id32 = static_cast<int32_t>(id);
      ids_.emplace(piece, id32);
      if (token.kind == TokenKind::Control || token.kind == TokenKind::Unknown ||
          token.kind == TokenKind::UserDefined) {
        matcher_.add(piece, id32);
      }
      tokens_.push_back(std::move(token));
    }
    for (const int32_t id : v.strips_right) tokens_[static_cast<size_t>(id)].strips_right = true;
    matcher_.finish();
  }

  // The bytes of white space that a text begins with.
  static size_t white_space_before(std::string_view text) {
    size_t bytes = 0;
    while (bytes < text.size()) {
      const size_t length = utf8_length(text.substr(bytes));
      if (length == 0 || !is_white_space(utf8_code_point(text.substr(bytes, length)))) break;
      bytes += length;
    }
    return bytes;
  }

  static std::string with_spaces(std::string_view piece) {
    std::string text;
    for (size_t at; (at = piece.find(kSpaceSymbol)) != piece.npos;) {
      text += piece.substr(0, at);
      text += ' ';
      piece.remove_prefix(at + kSpaceSymbol.size());
    }
    text += piece;
    return text;
  }

  // The vocabulary was checked before, so a refusal by the library is not expected. Its words would
  // not help a user.
  Library load(const LibraryModel& model) const {
    auto library = std::make_unique<sentencepiece::SentencePieceProcessor>();
    try {
      if (library->LoadFromSerializedProto(serialize(model)).ok()) return library;
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception&) {
    }
    fail(Exit::Model, vocabulary_.source, ": the sentencepiece library does not take these ",
         model.pieces.size(), " pieces, though each of them is valid; download the file again");
  }

  // If in_parts_, the library only merges; the prefix is added and long texts are cut here.
  void append_text(std::string_view text, bool prefix, std::vector<int32_t>& ids) const {
    if (text.empty()) return;
    if (!in_parts_) return append_by(prefix ? *starting_ : *continuing_, text, ids);
    const PieceMerger* merger = text.size() > 2 * kChunkBytes ? merger_for_long() : nullptr;
    std::string first;
    for (bool at_start = true; !text.empty(); at_start = false) {
      std::string_view part = text.substr(0, seams_.first_part(text));
      text.remove_prefix(part.size());
      if (at_start && prefix) {
        first.append(" ").append(part);
        part = first;
      }
      const bool merged =
          merger && part.size() <= kMaxChunkBytes && merger->append(as_library_sees(part), ids);
      if (merged) continue;
      append_by(*continuing_, part, ids);
    }
  }

  const PieceMerger* merger_for_long() const {
    std::call_once(merger_made_, [&] {
      Vocabulary checked = vocabulary_;
      merger_ = PieceMerger::make(library_vocabulary(checked));
    });
    return merger_.get();
  }

  void append_by(const sentencepiece::SentencePieceProcessor& library, std::string_view text,
                 std::vector<int32_t>& ids) const {
    if (text.size() > kMaxChunkBytes) {
      fail(Exit::Failed, "a text of ", text.size(),
           " bytes without a place to cut it is too long to tokenize; expected at most ",
           kMaxChunkBytes, " bytes");
    }
    std::vector<int> part;
    const auto status = library.Encode(text, &part);
    if (!status.ok()) {
      fail(Exit::Failed, vocabulary_.source,
           ": the sentencepiece library does not tokenize a text ", "of ", text.size(),
           " bytes; expected any text; try it in parts");
    }
    // Neighbouring unknown characters become one unknown token, also across a cut.
    const bool joins = !byte_fallback_ && !ids.empty() && !part.empty() &&
                       ids.back() == special_.unk && part.front() == special_.unk;
    ids.insert(ids.end(), part.begin() + joins, part.end());
  }

  Vocabulary vocabulary_;
  SpecialTokens special_;
  std::vector<Token> tokens_;
  std::unordered_map<std::string_view, int32_t> ids_;  // views of vocabulary_.pieces
  SpecialMatcher matcher_;
  bool byte_fallback_ = false;
  bool in_parts_ = false;
  Seams seams_;
  Library starting_;    // adds the prefix; used if !in_parts_
  Library continuing_;  // adds no prefix
  // For long texts; created on first use.
  mutable std::once_flag merger_made_;
  mutable std::unique_ptr<PieceMerger> merger_;
};

}  // namespace

std::unique_ptr<Tokenizer> make_sentencepiece(Vocabulary vocabulary) {
  return std::make_unique<SentencePiece>(std::move(vocabulary));
}

std::unique_ptr<Tokenizer> open_sentencepiece(const std::filesystem::path& model,
                                              const SentencePieceSettings& settings) {
  Vocabulary vocabulary = read_sentencepiece(model);
  vocabulary.add_bos = settings.add_bos.value_or(vocabulary.add_bos);
  vocabulary.add_eos = settings.add_eos.value_or(vocabulary.add_eos);
  vocabulary.legacy = settings.legacy.value_or(vocabulary.legacy);
  return make_sentencepiece(std::move(vocabulary));
}

}  // namespace skald
