// The file format of sentencepiece, a protocol buffer (sentencepiece_model.proto).
// parse_sentencepiece() in sentencepiece.h reads it. This header has what reader and writer share.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/text/tokenizer.h"

namespace skald {

// The checked input of the library. Names are unique and not empty, exactly one piece is Unknown,
// and with byte_fallback there are 256 Byte pieces.
struct LibraryModel {
  struct Piece {
    std::string name;
    float score;
    TokenKind kind;
  };
  std::vector<Piece> pieces;
  bool unigram, byte_fallback, add_dummy_prefix, remove_extra_whitespaces;
  std::string charsmap;
};

std::string serialize(const LibraryModel& model);

// The value of "<0x00>" to "<0xFF>", in exactly this spelling; -1 otherwise.
int byte_of_piece(std::string_view piece);

// Says why the normalizer's compiled rules are unsafe; "" if they are safe. The library follows
// their offsets unchecked, and reads past fixed arrays if too many rules share a prefix.
std::string charsmap_fault(std::string_view charsmap);

inline constexpr size_t kMaxPieces = size_t{1} << 20;
inline constexpr size_t kMaxPieceBytes = 4096;  // bounds the library's recursion over a piece

}  // namespace skald
