#include "tokenizer/sentencepiece/sentencepiece_model.h"

#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <unordered_set>

#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "tokenizer/sentencepiece/sentencepiece.h"

namespace skald {
namespace {

// Protocol buffers: a message is a list of fields. A field is a varint tag (number * 8 + wire type)
// and a value: a varint, 8 bytes, 4 bytes, or a varint length and as many bytes.
enum Wire : uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

struct Field {
  uint32_t number;
  Wire wire;
  uint64_t value;          // kVarint and kFixed32
  std::string_view bytes;  // kBytes
};

class Reader {
 public:
  Reader(std::string_view bytes, const std::string& source) : rest_(bytes), source_(source) {}

  bool next(Field& field) {
    if (rest_.empty()) return false;
    const uint64_t tag = varint();
    if (constexpr uint64_t kMost = (1u << 29) - 1; tag >> 3 == 0 || tag >> 3 > kMost) {
      damaged(concat("a field has the number ", tag >> 3, ", expected 1 to ", kMost));
    }
    field = {static_cast<uint32_t>(tag >> 3), static_cast<Wire>(tag & 7), 0, {}};
    switch (field.wire) {
      case kVarint:
        field.value = varint();
        break;
      case kFixed64:
        take(8);
        break;
      case kBytes:
        field.bytes = take(varint());
        break;
      case kFixed32: {
        const std::string_view bytes = take(4);
        for (int i = 3; i >= 0; --i)
          field.value = field.value << 8 | static_cast<uint8_t>(bytes[i]);
        break;
      }
      default:
        damaged(concat("a field has wire type ", tag & 7, ", expected 0, 1, 2 or 5"));
    }
    return true;
  }

  uint64_t number(const Field& field) const {
    expect(field, kVarint);
    return field.value;
  }
  bool flag(const Field& field) const { return number(field) != 0; }
  std::string_view bytes(const Field& field) const {
    expect(field, kBytes);
    return field.bytes;
  }
  float real(const Field& field) const {
    expect(field, kFixed32);
    return std::bit_cast<float>(static_cast<uint32_t>(field.value));
  }

  [[noreturn]] void damaged(const std::string& what) const {
    fail(Exit::Model, source_, ": is not a complete SentencePiece model: ", what,
         "; download the file again");
  }

 private:
  void expect(const Field& field, Wire wire) const {
    if (field.wire != wire) {
      damaged(concat("field ", field.number, " has wire type ", field.wire, ", expected ", wire));
    }
  }

  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const uint8_t byte = static_cast<uint8_t>(take(1)[0]);
      value |= uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) return value;
    }
    damaged("a number has more than 10 bytes");
  }

  std::string_view take(uint64_t count) {
    if (count > rest_.size()) {
      damaged(concat("a field has ", count, " bytes, but only ", rest_.size(), " follow"));
    }
    const std::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return taken;
  }

  std::string_view rest_;
  const std::string& source_;
};

// Properties of the file that are not part of a Vocabulary. Names and defaults are the format's.
struct Header {
  uint64_t model_type = 1;
  bool byte_fallback = false, space_as_suffix = false, escape_whitespaces = true;
  std::string_view bos = "<s>", eos = "</s>", pad = "<pad>";
};

constexpr uint64_t kUnigram = 1, kBpe = 2;

void read_piece(Reader reader, Vocabulary& out) {
  const size_t id = out.pieces.size();
  std::string_view piece;
  float score = 0;
  uint64_t type = 1;
  for (Field field; reader.next(field);) {
    if (field.number == 1) piece = reader.bytes(field);
    if (field.number == 2) score = reader.real(field);
    if (field.number == 3) type = reader.number(field);
  }
  if (id >= kMaxPieces) reader.damaged(concat("it has more than ", kMaxPieces, " pieces"));
  if (piece.empty()) reader.damaged(concat("piece ", id, " is empty"));
  if (!std::isfinite(score)) {
    reader.damaged(concat("piece ", id, " has the score ", score, ", expected a finite number"));
  }
  if (type < 1 || type > 6) {
    reader.damaged(concat("piece ", id, " has the type ", type, ", expected 1 to 6"));
  }
  out.pieces.emplace_back(piece);
  out.scores.push_back(score);
  out.types.push_back(static_cast<int32_t>(type));
}

void read_trainer(Reader reader, Header& header, Vocabulary& out) {
  for (Field field; reader.next(field);) {
    switch (field.number) {
      case 3:
        header.model_type = reader.number(field);
        break;
      case 24:
        header.space_as_suffix = reader.flag(field);
        break;
      case 35:
        header.byte_fallback = reader.flag(field);
        break;
      case 44:
        out.unk_surface = reader.bytes(field);
        break;
      case 46:
        header.bos = reader.bytes(field);
        break;
      case 47:
        header.eos = reader.bytes(field);
        break;
      case 48:
        header.pad = reader.bytes(field);
        break;
    }
  }
}

void read_normalizer(Reader reader, Header& header, Vocabulary& out) {
  for (Field field; reader.next(field);) {
    if (field.number == 2) out.charsmap = reader.bytes(field);
    if (field.number == 3) out.add_space_prefix = reader.flag(field);
    if (field.number == 4) out.remove_extra_whitespaces = reader.flag(field);
    if (field.number == 5) header.escape_whitespaces = reader.flag(field);
  }
}

void refuse_denormalizer(Reader reader, const std::string& source) {
  for (Field field; reader.next(field);) {
    if (field.number == 2 && !reader.bytes(field).empty()) {
      fail(Exit::Model, source, ": has denormalization rules, which skald does not support");
    }
  }
}

// Stricter than for a GGUF's arrays: the library writes a tokenizer.model, and never writes what is
// refused here.
void check_pieces(const Reader& reader, const Header& header, Vocabulary& out) {
  std::unordered_set<std::string_view> seen;
  std::vector<bool> byte_seen(256);
  for (size_t id = 0; id < out.pieces.size(); ++id) {
    const std::string& piece = out.pieces[id];
    if (!seen.insert(piece).second) {
      reader.damaged(concat("piece ", id, " '", printable(piece, 40), "' occurs twice"));
    }
    const TokenKind kind = static_cast<TokenKind>(out.types[id]);
    const int32_t id32 = static_cast<int32_t>(id);
    if (kind == TokenKind::Unknown) {
      if (out.unk >= 0) {
        reader.damaged(concat("pieces ", out.unk, " and ", id, " are unknown, expected one"));
      }
      out.unk = id32;
    } else if (kind == TokenKind::Control) {
      if (piece == header.bos) out.bos = id32;
      if (piece == header.eos) out.eos = id32;
      if (piece == header.pad) out.pad = id32;
    } else if (kind == TokenKind::Byte) {
      const int byte = byte_of_piece(piece);
      if (byte < 0) {
        reader.damaged(concat("byte piece ", id, " is '", printable(piece, 40),
                              "', expected '<0x00>' to '<0xFF>'"));
      }
      if (!header.byte_fallback) {
        reader.damaged(concat("piece ", id, " is a byte piece, but byte_fallback is off"));
      }
      byte_seen[byte] = true;
    }
  }
  if (out.unk < 0) reader.damaged("it has no unknown piece");
  if (header.byte_fallback) {
    for (int byte = 0; byte < 256; ++byte) {
      if (!byte_seen[byte])
        reader.damaged(concat("byte_fallback is on, but byte ", byte, " has no piece"));
    }
  }
}

}  // namespace

Vocabulary parse_sentencepiece(std::string_view bytes, const std::string& source) {
  Vocabulary out;
  out.source = source;
  out.remove_extra_whitespaces = true;  // the format's default differs from ours
  Header header;
  Reader reader(bytes, source);
  for (Field field; reader.next(field);) {
    if (field.number == 1) read_piece(Reader(reader.bytes(field), source), out);
    if (field.number == 2) read_trainer(Reader(reader.bytes(field), source), header, out);
    if (field.number == 3) read_normalizer(Reader(reader.bytes(field), source), header, out);
    if (field.number == 5) refuse_denormalizer(Reader(reader.bytes(field), source), source);
  }
  if (out.pieces.empty()) reader.damaged("it has no pieces");
  if (header.model_type != kUnigram && header.model_type != kBpe) {
    fail(Exit::Model, source, ": has SentencePiece's model type ", header.model_type,
         ", expected 1 (unigram) or 2 (BPE); skald supports no other");
  }
  if (header.space_as_suffix || !header.escape_whitespaces) {
    fail(Exit::Model, source, ": has ",
         header.space_as_suffix ? "treat_whitespace_as_suffix = true, expected false"
                                : "escape_whitespaces = false, expected true",
         "; skald does not support this way of writing spaces");
  }
  out.unigram = header.model_type == kUnigram;
  check_pieces(reader, header, out);
  return out;
}

Vocabulary read_sentencepiece(const std::filesystem::path& model) {
  constexpr uintmax_t kMaxFileBytes = 64 << 20;  // a vocabulary of 256,000 pieces takes 4 MB
  std::error_code error;
  if (!std::filesystem::is_regular_file(model, error)) {
    fail(Exit::Model, model.string(), ": is not a file; expected a SentencePiece tokenizer.model");
  }
  const uintmax_t size = std::filesystem::file_size(model, error);
  if (error) fail(Exit::Model, model.string(), ": cannot be read: ", error.message());
  if (size > kMaxFileBytes) {
    fail(Exit::Model, model.string(), ": has ", size, " bytes, expected at most ", kMaxFileBytes,
         " for a tokenizer.model");
  }
  std::string bytes(size, '\0');
  std::ifstream in(model, std::ios::binary);
  if (!in.is_open()) fail(Exit::Model, model.string(), ": cannot be read: ", std::strerror(errno));
  if (!in.read(bytes.data(), static_cast<std::streamsize>(size))) {
    fail(Exit::Model, model.string(), ": ends early or cannot be read; check the file");
  }
  return parse_sentencepiece(bytes, model.string());
}

int byte_of_piece(std::string_view piece) {
  const auto digit = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
  };
  if (piece.size() != 6 || !piece.starts_with("<0x") || piece[5] != '>') return -1;
  const int high = digit(piece[3]), low = digit(piece[4]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

}  // namespace skald
