// What the formats of one and two bits have in common: w[i] = scale * factor * number / 8. `factor`
// is an integer from 1 to 31 for 16 weights, byte_scale(block, i / 16). `number` is one of eight
// integers that a code of three bits selects. So the GPU stores all these formats alike. A block
// type has the eight integers in kNumbers, bits 8c to 8c + 7 for code c, each as a signed byte.
//
// decode() is exact: scale has 11 bits, factor 5 and number 6.
#pragma once

#include <cstdint>

#include "engine/base/half.h"

namespace skald {

struct EightNumbers {
  int of_code[8];
};
constexpr uint64_t signed_bytes(const EightNumbers& numbers) {
  uint64_t bytes = 0;
  for (int c = 0; c < 8; ++c) {
    bytes |= static_cast<uint64_t>(static_cast<uint8_t>(numbers.of_code[c])) << (8 * c);
  }
  return bytes;
}
SKALD_HD constexpr int signed_byte(uint64_t bytes, int c) {
  return static_cast<int8_t>(bytes >> (8 * c) & 255);
}

// The formats of two bits. Bits 0 and 1 of a code: 0 to 2, an entry of the grid; bit 2: the sign.
inline constexpr uint64_t kIq2Numbers = signed_bytes({{8, 25, 43, 0, -8, -25, -43, 0}});
// IQ1_S, IQ1_M: 8 * t + 1 or 8 * t - 1. Bits 0 and 1 of a code: t + 1; bit 2: minus 1.
inline constexpr uint64_t kIq1Numbers = signed_bytes({{-7, 1, 9, 0, -9, -1, 7, 0}});
// TQ1_0, TQ2_0: 8 * (code - 1), with codes up to 3. Files have no code 3, but TQ2_0 can store it.
inline constexpr uint64_t kTernaryNumbers = signed_bytes({{-8, 0, 8, 16, 0, 0, 0, 0}});

template <class Block>
SKALD_HD float decode_eighths(float scale, const Block& b, int i) {
  constexpr uint64_t kNumbers = Block::kNumbers;
  return scale * byte_scale(b, i / 16) * signed_byte(kNumbers, code(b, i)) * 0.125f;
}

}  // namespace skald
