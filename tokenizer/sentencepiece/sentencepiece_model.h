// The file format of sentencepiece, a protocol buffer (sentencepiece_model.proto). Reading it is
// parse_sentencepiece() in sentencepiece.h; this is for the parts between the reader and the
// library.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/text/tokenizer.h"

namespace skald {

// What the library is told. Unlike Vocabulary everything in it holds: names are unique and not
// empty, one piece is Unknown, byte_fallback comes with 256 Byte pieces.
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

// The value of "<0x00>" to "<0xFF>", exactly so written; -1 for anything else.
int byte_of_piece(std::string_view piece);

// Why the normalizer's compiled rules cannot be trusted, or "". The library follows offsets in them
// unchecked and reads past fixed arrays when too many rules share a beginning.
std::string charsmap_fault(std::string_view charsmap);

inline constexpr size_t kMaxPieces = size_t{1} << 20;
inline constexpr size_t kMaxPieceBytes = 4096;  // bounds the library's recursion over a piece

}  // namespace skald
