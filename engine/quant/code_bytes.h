// Packs the codes of a block into its bytes: the inverse of the code() functions in q4_0.h and the
// other format headers. The argument `code(i)` gives the unsigned code of weight i. Each function
// returns the i-th byte of a field.
#pragma once

#include <cstdint>

#include "engine/base/half.h"

namespace skald {

// Two 4-bit codes per byte. The pair lies kRun weights apart: each 2 * kRun weights fill kRun
// bytes.
template <int kRun, class Code>
SKALD_HD uint8_t nibble_byte(const Code& code, int i) {
  const int low = i / kRun * 2 * kRun + i % kRun;
  return static_cast<uint8_t>((code(low) & 15) | (code(low + kRun) & 15) << 4);
}

// The 2-bit codes of four weights that lie 32 apart: each 128 weights fill 32 bytes.
template <class Code>
SKALD_HD uint8_t two_bits(const Code& code, int i) {
  const int first = i / 32 * 128 + i % 32;
  int bits = 0;
  for (int j = 0; j < 4; ++j) bits |= (code(first + 32 * j) & 3) << (2 * j);
  return static_cast<uint8_t>(bits);
}

// Bit 4 of the codes of eight weights that lie `kStep` apart, the first of them at `first`.
template <int kStep, class Code>
SKALD_HD uint8_t fifth_bits(const Code& code, int first) {
  int bits = 0;
  for (int i = 0; i < 8; ++i) bits |= (code(first + i * kStep) >> 4 & 1) << i;
  return static_cast<uint8_t>(bits);
}

// Bits 4 and 5 of Q6_K's codes, four weights per byte.
template <class Code>
SKALD_HD uint8_t high_pairs(const Code& code, int i) {
  const int first = i / 32 * 128 + i % 32;
  int bits = 0;
  for (int j = 0; j < 4; ++j) bits |= (code(first + 32 * j) >> 4 & 3) << (2 * j);
  return static_cast<uint8_t>(bits);
}

// Byte i of the twelve that hold the scales s(g) and minimums m(g); see q4_k_scales.h.
template <class S, class M>
SKALD_HD uint8_t q4_k_scale_byte(const S& s, const M& m, int i) {
  const int g = i % 4;
  if (i < 4) return static_cast<uint8_t>(s(g) | s(g + 4) >> 4 << 6);
  if (i < 8) return static_cast<uint8_t>(m(g) | m(g + 4) >> 4 << 6);
  return static_cast<uint8_t>((s(g + 4) & 15) | (m(g + 4) & 15) << 4);
}

}  // namespace skald
