// The codes of a part, 16 rows x 128 columns, in the order of a warp's lanes (tiles/layout.h), for
// each number of bits. word() packs: it makes the i-th 32-bit word of a part from code(row, col).
// at() reads one code back. Of a code's bits the low four or two lie in one plane, the rest in
// another behind it, so that all accesses of a lane are 4, 8 or 16 bytes.
#pragma once

#include <cstring>

#include "cuda/kernels/tiles/layout.h"

namespace skald::tiles {

SKALD_HD inline uint32_t load_word(const std::byte* plane, int i) {
  uint32_t word;
  std::memcpy(&word, plane + i * 4, 4);
  return word;
}

// Bits [first, first + kBits) of four pairs, of which the first of each is in the low half.
template <int kBits, class Code>
SKALD_HD uint32_t pairs_word(const Code& code, const LaneWord& at, int first) {
  uint32_t word = 0;
  for (int pair = 0; pair < 4; ++pair) {
    for (int i = 0; i < 2; ++i) {
      const uint32_t bits = static_cast<uint32_t>(code(at.row, at.col(pair, i))) >> first;
      word |= (bits & ((1u << kBits) - 1)) << (pair * kBits + 16 * i);
    }
  }
  return word;
}

// Where a code lies: the inverse of LaneWord.
struct CodePlace {
  int lane, unit, half, pair, i;
  SKALD_HD CodePlace(int row, int col)
      : lane(row % 8 * 4 + col % 16 / 4),
        unit(col / 32),
        half(row / 8),
        pair(col % 32 / 16 * 2 + col % 4 / 2),
        i(col % 2) {}
};

// kOddScale: with what the codes of odd pairs come out multiplied when a lane masks them in place
// instead of moving them; the activations are divided by it.

// Four bits: of each 64 columns, 16 bytes a lane.
template <int kFirstBit = 0>
struct FourBits {
  static constexpr int kBytes = 1024, kOddScale = 16;
  template <class Code>
  SKALD_HD static uint32_t word(const Code& code, int i) {
    return pairs_word<4>(code, {i / 4 % 32, i / 128 * 2 + i % 4 / 2, i % 2}, kFirstBit);
  }
  SKALD_HD static int at(const std::byte* plane, const CodePlace& p) {
    const int i = (p.unit / 2 * 32 + p.lane) * 4 + p.unit % 2 * 2 + p.half;
    return load_word(plane, i) >> (p.pair * 4 + p.i * 16) & 15;
  }
};

// Two bits: 16 bytes a lane, two units a word.
template <int kFirstBit = 0>
struct TwoBits {
  static constexpr int kBytes = 512, kOddScale = 4;
  template <class Code>
  SKALD_HD static uint32_t word(const Code& code, int i) {
    const int lane = i / 4, half = i / 2 % 2, unit = i % 2 * 2;
    return pairs_word<2>(code, {lane, unit, half}, kFirstBit) |
           pairs_word<2>(code, {lane, unit + 1, half}, kFirstBit) << 8;
  }
  SKALD_HD static int at(const std::byte* plane, const CodePlace& p) {
    const uint32_t word = load_word(plane, p.lane * 4 + p.half * 2 + p.unit / 2);
    return word >> (p.unit % 2 * 8 + p.pair * 2 + p.i * 16) & 3;
  }
};

// One bit: 8 bytes a lane, four units a word.
template <int kFirstBit>
struct OneBit {
  static constexpr int kBytes = 256;
  template <class Code>
  SKALD_HD static uint32_t word(const Code& code, int i) {
    uint32_t word = 0;
    for (int unit = 0; unit < kUnits; ++unit) {
      word |= pairs_word<1>(code, {i / 2, unit, i % 2}, kFirstBit) << (unit * 4);
    }
    return word;
  }
  SKALD_HD static int at(const std::byte* plane, const CodePlace& p) {
    return load_word(plane, p.lane * 2 + p.half) >> (p.unit * 4 + p.pair + p.i * 16) & 1;
  }
};

// Codes of one plane.
template <class Plane>
struct Codes1 {
  using Low = Plane;
  static constexpr int kBytes = Plane::kBytes, kOddScale = Plane::kOddScale;
  template <class Code>
  SKALD_HD static uint32_t word(const Code& code, int i) {
    return Plane::word(code, i);
  }
  SKALD_HD static int at(const std::byte* codes, int row, int col) {
    return Plane::at(codes, {row, col});
  }
};

// And of two: kBits in the first.
template <class LowPlane, class HighPlane, int kBits>
struct Codes2 {
  using Low = LowPlane;
  using High = HighPlane;
  static constexpr int kLowBits = kBits;
  static constexpr int kBytes = Low::kBytes + High::kBytes, kOddScale = Low::kOddScale;
  template <class Code>
  SKALD_HD static uint32_t word(const Code& code, int i) {
    constexpr int kLowWords = Low::kBytes / 4;
    return i < kLowWords ? Low::word(code, i) : High::word(code, i - kLowWords);
  }
  SKALD_HD static int at(const std::byte* codes, int row, int col) {
    const CodePlace place(row, col);
    return Low::at(codes, place) | High::at(codes + Low::kBytes, place) << kBits;
  }
};

// Four bits that stand for other numbers. A table is looked up for four codes at a time, so these
// are adjacent: the low half of a word is for the unit's first 16 columns.
struct TableCodes {
  static constexpr int kBytes = 1024, kOddScale = 1;
  template <class Code>
  SKALD_HD static uint32_t word(const Code& code, int i) {
    const LaneWord at(i / 4 % 32, i / 128 * 2 + i % 4 / 2, i % 2);
    uint32_t word = 0;
    for (int n = 0; n < 8; ++n) {
      word |= static_cast<uint32_t>(code(at.row, at.col(n / 2, n % 2))) << (n * 4);
    }
    return word;
  }
  SKALD_HD static int at(const std::byte* codes, int row, int col) {
    const CodePlace p(row, col);
    const int i = (p.unit / 2 * 32 + p.lane) * 4 + p.unit % 2 * 2 + p.half;
    return load_word(codes, i) >> ((p.pair * 2 + p.i) * 4) & 15;
  }
};

// Eight bits: of each unit 16 bytes a lane, of each row 8.
struct EightBits {
  static constexpr int kBytes = 2048, kOddScale = 1;
  template <class Code>
  SKALD_HD static uint32_t word(const Code& code, int i) {
    const LaneWord at(i / 4 % 32, i / 128, i / 2 % 2);
    uint32_t word = 0;
    for (int n = 0; n < 4; ++n) {
      word |= static_cast<uint32_t>(code(at.row, at.col(i % 2 * 2 + n / 2, n % 2))) << (n * 8);
    }
    return word;
  }
  SKALD_HD static int at(const std::byte* codes, int row, int col) {
    const CodePlace p(row, col);
    const int i = (p.unit * 32 + p.lane) * 4 + p.half * 2 + p.pair / 2;
    return load_word(codes, i) >> ((p.pair % 2 * 2 + p.i) * 8) & 255;
  }
};

}  // namespace skald::tiles
