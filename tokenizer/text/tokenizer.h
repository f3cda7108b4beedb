// Text to token ids and back. A Tokenizer is immutable once made: any number of threads may use it.
// Ids come out of encode() in [0, vocab_size()). Going back, any id is welcome: models pad their
// embedding beyond the vocabulary, and an id outside it simply has no text.
// For text that arrives token by token see text_stream.h.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace skald {

// The numbers are those of the SentencePiece and GGUF formats.
enum class TokenKind : uint8_t {
  Normal = 1,
  Unknown = 2,
  Control =
      3,  // <s>, [INST]: has no text, and text becomes it only by EncodeOptions::parse_special
  UserDefined = 4,
  Unused = 5,
  Byte = 6,
};

// An id of -1: the tokenizer has none. add_bos and add_eos are false where the id is -1.
struct SpecialTokens {
  int32_t bos = -1, eos = -1, unk = -1, pad = -1;
  bool add_bos = false, add_eos = false;  // what the tokenizer's files ask for
};

struct EncodeOptions {
  // Unset: as special() says. A text that begins with BOS (parse_special) gets no second one.
  std::optional<bool> add_bos = {}, add_eos = {};
  // Texts of control, unknown and user-defined tokens in the text become those tokens. Never for
  // text that a user typed or a file holds: "</s>" in it would end the conversation.
  bool parse_special = false;
  bool starts_text = true;  // false: the text goes on from an earlier one and gets no space prefix
};

// What happens to the space that SentencePiece puts before a text, on the way back.
enum class LeadingSpace { Keep, DropOne, DropAll };

// What one U+FFFD stands for in a decoded text: a byte that is no UTF-8 (SentencePiece), or all
// bytes of a character that lacks others (Hugging Face's byte-level decoder).
enum class BrokenCharacter { EachByte, Whole };

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  virtual std::vector<int32_t> encode(std::string_view text, const EncodeOptions& = {}) const = 0;

  // The whole text of ids that start a text; always valid UTF-8, with U+FFFD for what is none.
  // show_control: control tokens, which have no text, appear as their pieces.
  std::string decode(std::span<const int32_t> ids, bool show_control = false) const;

  virtual int32_t vocab_size() const = 0;
  virtual std::string_view name() const = 0;  // "SentencePiece BPE"
  virtual const SpecialTokens& special() const = 0;

  virtual TokenKind kind(int32_t id) const = 0;  // Unused where the id is outside the vocabulary
  bool is_control(int32_t id) const { return kind(id) == TokenKind::Control; }

  // The vocabulary entry as written ("▁the", "<0x0A>"), and the first id with this entry, or -1.
  // The views here and below live as long as the tokenizer.
  virtual std::string_view piece(int32_t id) const = 0;
  virtual int32_t find(std::string_view piece) const = 0;

  // The bytes that this token adds to a text: " the", "\n", "" for a control token.
  virtual std::string_view piece_bytes(int32_t id) const = 0;

  // For TextStream. joins: the bytes may be a part of a character, which a neighbour completes; the
  // bytes of a token that does not join are valid UTF-8. starts_word: the bytes begin with the
  // space that may be the prefix of the text.
  virtual bool joins(int32_t id) const = 0;
  virtual bool starts_word(int32_t id) const = 0;
  virtual LeadingSpace leading_space() const = 0;
  virtual BrokenCharacter broken_character() const { return BrokenCharacter::EachByte; }
};

}  // namespace skald
