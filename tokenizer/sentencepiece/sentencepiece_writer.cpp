#include <bit>
#include <cstdint>

#include "tokenizer/sentencepiece/sentencepiece_model.h"

namespace skald {
namespace {

void put_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

void put_number(std::string& out, uint32_t field, uint64_t value) {
  put_varint(out, field << 3 | 0);
  put_varint(out, value);
}

void put_float(std::string& out, uint32_t field, float value) {
  put_varint(out, field << 3 | 5);
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  for (int shift = 0; shift < 32; shift += 8) out += static_cast<char>(bits >> shift);
}

void put_bytes(std::string& out, uint32_t field, std::string_view bytes) {
  put_varint(out, field << 3 | 2);
  put_varint(out, bytes.size());
  out += bytes;
}

}  // namespace

std::string serialize(const LibraryModel& model) {
  std::string out;
  for (const LibraryModel::Piece& piece : model.pieces) {
    std::string message;
    put_bytes(message, 1, piece.name);
    put_float(message, 2, piece.score);
    put_number(message, 3, static_cast<uint64_t>(piece.kind));
    put_bytes(out, 1, message);
  }
  std::string trainer;
  put_number(trainer, 3, model.unigram ? 1 : 2);
  put_number(trainer, 4, model.pieces.size());
  put_number(trainer, 35, model.byte_fallback);
  put_bytes(out, 2, trainer);

  std::string normalizer;
  put_bytes(normalizer, 1, model.charsmap.empty() ? "identity" : "custom");
  put_bytes(normalizer, 2, model.charsmap);
  put_number(normalizer, 3, model.add_dummy_prefix);
  put_number(normalizer, 4, model.remove_extra_whitespaces);
  put_number(normalizer, 5, true);
  put_bytes(out, 3, normalizer);
  return out;
}

}  // namespace skald
