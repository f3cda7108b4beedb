#include "tokenizer/bpe/byte_alphabet.h"

#include <array>

#include "tokenizer/text/utf8.h"

namespace skald {
namespace {

struct Alphabet {
  std::array<char32_t, 256> characters{};
  std::array<int16_t, 0x100 + 68> bytes{};
};

Alphabet make_alphabet() {
  Alphabet out;
  out.bytes.fill(-1);
  char32_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
    out.characters[byte] = printable ? static_cast<char32_t>(byte) : next++;
    out.bytes[out.characters[byte]] = static_cast<int16_t>(byte);
  }
  return out;
}

const Alphabet& alphabet() {
  static const Alphabet kAlphabet = make_alphabet();
  return kAlphabet;
}

}  // namespace

char32_t byte_character(uint8_t byte) { return alphabet().characters[byte]; }

int byte_of_character(char32_t character) {
  const auto& bytes = alphabet().bytes;
  return character < bytes.size() ? bytes[character] : -1;
}

bool append_bytes_of(std::string_view piece, std::string& bytes) {
  const size_t before = bytes.size();
  while (!piece.empty()) {
    const size_t length = utf8_length(piece);
    const int byte = length > 0 ? byte_of_character(utf8_code_point(piece.substr(0, length))) : -1;
    if (byte < 0) {
      bytes.resize(before);
      return false;
    }
    bytes += static_cast<char>(byte);
    piece.remove_prefix(length);
  }
  return true;
}

}  // namespace skald
