// The grids of the formats of one to three bits, as bytes for fast_unpack_k-inl.h: a code's number
// plus the format's offset, so that no byte is negative.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/quant/formats/even_signs.h"
#include "engine/quant/formats/iq1_grid.h"
#include "engine/quant/formats/iq2_grids.h"
#include "engine/quant/formats/iq3_xxs.h"

namespace skald::cpu {

template <class Word, size_t kEntries>
struct GridBytes {
  Word entries[kEntries];
};

// A byte for each of an entry's codes of kBits; byte_of[code] is the byte.
template <class Word, int kBits, class Grid>
constexpr auto grid_bytes(const Grid& grid, const uint8_t (&byte_of)[1 << kBits]) {
  constexpr size_t kEntries = sizeof(grid.entries) / sizeof(grid.entries[0]);
  GridBytes<Word, kEntries> bytes{};
  for (size_t i = 0; i < kEntries; ++i) {
    for (size_t j = 0; j < sizeof(Word); ++j) {
      const int code = grid.entries[i] >> (kBits * j) & ((1 << kBits) - 1);
      bytes.entries[i] |= static_cast<Word>(byte_of[code]) << (8 * j);
    }
  }
  return bytes;
}

inline constexpr int kIq2Offset = 43, kIq1Offset = 9, kIq3XxsOffset = 31, kTernaryOffset = 8;

inline constexpr auto kIq2XxsBytes =
    grid_bytes<uint64_t, 2>(kIq2XxsGrid, {8 + kIq2Offset, 25 + kIq2Offset, 43 + kIq2Offset, 0});
inline constexpr auto kIq2XsBytes =
    grid_bytes<uint64_t, 2>(kIq2XsGrid, {8 + kIq2Offset, 25 + kIq2Offset, 43 + kIq2Offset, 0});
inline constexpr auto kIq2SBytes =
    grid_bytes<uint64_t, 2>(kIq2SGrid, {8 + kIq2Offset, 25 + kIq2Offset, 43 + kIq2Offset, 0});
// With the shift of + 1; the other shift gives 2 less.
inline constexpr auto kIq1Bytes =
    grid_bytes<uint64_t, 2>(kIq1Grid, {kIq1Offset - 7, kIq1Offset + 1, kIq1Offset + 9, 0});
inline constexpr auto kIq3XxsBytes = grid_bytes<uint32_t, 3>(
    kIq3XxsGrid, {2 + kIq3XxsOffset, 6 + kIq3XxsOffset, 10 + kIq3XxsOffset, 14 + kIq3XxsOffset,
                  18 + kIq3XxsOffset, 22 + kIq3XxsOffset, 26 + kIq3XxsOffset, 31 + kIq3XxsOffset});

// Byte j is 255 if the j-th of eight weights is negative. Indexed by eight signs, or by the seven
// of even_signs.h.
struct SignBytes {
  uint64_t of_eight[256] = {}, of_seven[128] = {};
};
constexpr SignBytes sign_bytes() {
  SignBytes bytes;
  for (int i = 0; i < 256; ++i) {
    for (int j = 0; j < 8; ++j) {
      bytes.of_eight[i] |= (i >> j & 1 ? uint64_t{255} : 0) << (8 * j);
      if (i < 128) bytes.of_seven[i] |= (even_sign(i, j) ? uint64_t{255} : 0) << (8 * j);
    }
  }
  return bytes;
}
inline constexpr SignBytes kSignBytes = sign_bytes();

// Negates the numbers that `negative` selects: offset + w becomes offset - w.
template <int kOffset>
inline uint64_t with_signs(uint64_t bytes, uint64_t negative) {
  constexpr uint64_t kTwice = 2 * kOffset * uint64_t{0x0101010101010101};
  return bytes ^ ((bytes ^ (kTwice - bytes)) & negative);
}

}  // namespace skald::cpu
