// Converts text to token ids and back. A Tokenizer is immutable: any number of threads may use it.
// encode() returns ids in [0, vocab_size()). decode() accepts any id, because models pad their
// embedding beyond the vocabulary; an id outside the vocabulary has no text. For text that arrives
// token by token see text_stream.h.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace skald {

// The values are those of the SentencePiece and GGUF formats.
enum class TokenKind : uint8_t {
  Normal = 1,
  Unknown = 2,
  Control = 3,  // <s>, [INST]: has no text; encoded only with EncodeOptions::parse_special
  UserDefined = 4,
  Unused = 5,
  Byte = 6,
};

// -1: the tokenizer has no such token; add_bos and add_eos are then false.
struct SpecialTokens {
  int32_t bos = -1, eos = -1, unk = -1, pad = -1;
  bool add_bos = false, add_eos = false;  // from the tokenizer's files
};

struct EncodeOptions {
  // Unset: as in special(). A text that begins with BOS (parse_special) gets no second one.
  std::optional<bool> add_bos = {}, add_eos = {};
  // true: the names of control, unknown and user-defined tokens in the text become those tokens.
  // Never use this for text from users or files: "</s>" in it would end the conversation.
  bool parse_special = false;
  bool starts_text = true;  // false: the text continues an earlier one and gets no space prefix
};

// What decoding does with the space that SentencePiece puts before a text.
enum class LeadingSpace { Keep, DropOne, DropAll };

// What one U+FFFD replaces in a decoded text: each invalid byte (SentencePiece), or all bytes of an
// incomplete character (Hugging Face's byte-level decoder).
enum class BrokenCharacter { EachByte, Whole };

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  virtual std::vector<int32_t> encode(std::string_view text, const EncodeOptions& = {}) const = 0;

  // The text of ids that start a text. The result is valid UTF-8, with U+FFFD for invalid bytes.
  // show_control: control tokens, which have no text, appear as their pieces.
  std::string decode(std::span<const int32_t> ids, bool show_control = false) const;

  virtual int32_t vocab_size() const = 0;
  virtual std::string_view name() const = 0;  // "SentencePiece BPE"
  virtual const SpecialTokens& special() const = 0;

  virtual TokenKind kind(int32_t id) const = 0;  // Unused if the id is outside the vocabulary
  bool is_control(int32_t id) const { return kind(id) == TokenKind::Control; }

  // The vocabulary entry as written ("▁the", "<0x0A>"), and the first id with this entry, or -1.
  // All views returned here and below live as long as the tokenizer.
  virtual std::string_view piece(int32_t id) const = 0;
  virtual int32_t find(std::string_view piece) const = 0;

  // The bytes that this token adds to a text: " the", "\n", "" for a control token.
  virtual std::string_view piece_bytes(int32_t id) const = 0;

  // For TextStream. joins: the bytes may be a part of a character that a neighbouring token
  // completes; the bytes of a token that does not join are valid UTF-8. starts_word: the bytes
  // begin with the space that may be the text's prefix.
  virtual bool joins(int32_t id) const = 0;
  virtual bool starts_word(int32_t id) const = 0;
  virtual LeadingSpace leading_space() const = 0;
  virtual BrokenCharacter broken_character() const { return BrokenCharacter::EachByte; }
};

}  // namespace skald
