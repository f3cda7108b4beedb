// The codes of a part, 16 rows x 128 columns, in the order of a warp's lanes (tiles/layout.h), for
// each number of bits. word() packs: it makes the i-th 32-bit word of a part from code(row, col).
// at() reads one code back. Of five or six bits the low four lie in one plane, the rest in another
// behind it, so that all accesses of a lane are 4, 8 or 16 bytes.
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

// Of a word that has pairs of several units, kBits of each: where those of the k-th two pairs
// begin, k / 2 the unit and k % 2 the 16 columns, of which the second pair is `apart` bits further.
// Both are in the byte in which FourBits has the same columns, so that what masks a byte's two low
// codes masks the bits above them; and as far apart as there, so that one shift brings both pairs
// to their place above the low bits.
template <int kBits>
SKALD_HD constexpr int pairs_at(int k, int apart) {
  const int unit = k / 2, units = apart / kBits;
  return k % 2 * 8 + unit / units * 2 * apart + unit % units * kBits;
}
template <int kBits, class Code>
SKALD_HD uint32_t units_word(const Code& code, int lane, int first_unit, int half, int first_bit,
                             int apart) {
  uint32_t word = 0;
  for (int k = 0; k < 8 / kBits; ++k) {
    const LaneWord at(lane, first_unit + k / 2, half);
    for (int n = 0; n < 4; ++n) {
      const int pair = k % 2 * 2 + n / 2;
      const uint32_t bits = static_cast<uint32_t>(code(at.row, at.col(pair, n % 2))) >> first_bit;
      word |= (bits & ((1u << kBits) - 1))
              << (pairs_at<kBits>(k, apart) + n / 2 * apart + n % 2 * 16);
    }
  }
  return word;
}
template <int kBits>
SKALD_HD int shift_of(const CodePlace& p, int apart) {
  const int k = p.unit % (4 / kBits) * 2 + p.pair / 2;
  return pairs_at<kBits>(k, apart) + p.pair % 2 * apart + p.i * 16;
}

// Two upper bits: 16 bytes a lane, two units a word.
template <int kFirstBit>
struct TwoBits {
  static constexpr int kBytes = 512, kApart = kFirstBit;
  template <class Code>
  SKALD_HD static uint32_t word(const Code& code, int i) {
    return units_word<2>(code, i / 4, i % 2 * 2, i / 2 % 2, kFirstBit, kApart);
  }
  SKALD_HD static int at(const std::byte* plane, const CodePlace& p) {
    const uint32_t word = load_word(plane, p.lane * 4 + p.half * 2 + p.unit / 2);
    return word >> shift_of<2>(p, kApart) & 3;
  }
};

// One upper bit: 8 bytes a lane, four units a word.
template <int kFirstBit>
struct OneBit {
  static constexpr int kBytes = 256, kApart = kFirstBit;
  template <class Code>
  SKALD_HD static uint32_t word(const Code& code, int i) {
    return units_word<1>(code, i / 2, 0, i % 2, kFirstBit, kApart);
  }
  SKALD_HD static int at(const std::byte* plane, const CodePlace& p) {
    return load_word(plane, p.lane * 2 + p.half) >> shift_of<1>(p, kApart) & 1;
  }
};

// Two or three bits, where 16 columns have a scale: a word is of the first (m = 0) or last 16
// columns of several units. Its n-th byte has pair n % 2's code n / 2 of each of these, so that
// what a mask leaves of the word is of one block.
struct CodesOf16 {
  int lane, m, half;
  template <class Code>
  SKALD_HD uint32_t operator()(const Code& code, int unit, int n) const {
    const LaneWord at(lane, unit, half);
    return static_cast<uint32_t>(code(at.row, at.col(m * 2 + n % 2, n / 2)));
  }
};
SKALD_HD inline uint32_t byte_of(uint32_t word, const CodePlace& p) {
  return word >> ((p.pair % 2 + p.i * 2) * 8) & 255;
}

// Two bits: 16 bytes a lane, all units in a word.
struct TwoBitsBy16 {
  static constexpr int kBytes = 512, kOddScale = 256;
  SKALD_HD static constexpr int shift(int unit) { return unit * 2; }
  template <class Code>
  SKALD_HD static uint32_t word(const Code& code, int i) {
    const CodesOf16 codes = {i / 4, i / 2 % 2, i % 2};
    uint32_t word = 0;
    for (int n = 0; n < 4; ++n) {
      for (int unit = 0; unit < kUnits; ++unit) {
        word |= codes(code, unit, n) << (n * 8 + shift(unit));
      }
    }
    return word;
  }
  SKALD_HD static int at(const std::byte* plane, const CodePlace& p) {
    return byte_of(load_word(plane, p.lane * 4 + p.pair / 2 * 2 + p.half), p) >> shift(p.unit) & 3;
  }
};

// Three bits: two units in a word, in six bits of a byte. Words k of both rows are those of units 0
// and 1, first and last columns, 16 bytes a lane; then of units 2 and 3 the first, 8 bytes. Of the
// last columns there the six bits are in the two that the other words leave, from bit 2 k on in
// word k.
struct ThreeBitsBy16 {
  static constexpr int kBytes = 768, kOddScale = 1;
  static constexpr int kSecondAt = 512, kLast = 3;
  SKALD_HD static constexpr int shift(int unit) { return unit % 2 * 3; }
  SKALD_HD static constexpr int word_at(int lane, int k, int half) {
    return k < 2 ? lane * 4 + k * 2 + half : kSecondAt / 4 + lane * 2 + half;
  }
  template <class Code>
  SKALD_HD static uint32_t word(const Code& code, int i) {
    const int k = i < kSecondAt / 4 ? i % 4 / 2 : 2;
    const int lane = k < 2 ? i / 4 : (i - kSecondAt / 4) / 2;
    const CodesOf16 codes = {lane, k % 2, i % 2}, last = {lane, kLast % 2, i % 2};
    uint32_t word = 0;
    for (int n = 0; n < 4; ++n) {
      uint32_t bits = 0, last_bits = 0;
      for (int u = 0; u < 2; ++u) {
        bits |= codes(code, k / 2 * 2 + u, n) << shift(u);
        last_bits |= last(code, kLast / 2 * 2 + u, n) << shift(u);
      }
      word |= (bits | (last_bits >> (k * 2) & 3) << 6) << (n * 8);
    }
    return word;
  }
  SKALD_HD static int at(const std::byte* plane, const CodePlace& p) {
    const int k = p.unit / 2 * 2 + p.pair / 2;
    uint32_t bits = 0;
    if (k < kLast) {
      bits = byte_of(load_word(plane, word_at(p.lane, k, p.half)), p);
    } else {
      for (int i = 0; i < kLast; ++i) {
        bits |= byte_of(load_word(plane, word_at(p.lane, i, p.half)), p) >> 6 << (i * 2);
      }
    }
    return bits >> shift(p.unit) & 7;
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
// are adjacent: the low half of a word is for the unit's first 16 columns. What comes out are bytes
// of two pairs, of which every second one is of the same pair.
struct TableCodes {
  static constexpr int kBytes = 1024, kOddScale = 1;
  SKALD_HD static constexpr int place(int pair, int i) {
    return pair / 2 * 16 + i * 8 + pair % 2 * 4;
  }
  template <class Code>
  SKALD_HD static uint32_t word(const Code& code, int i) {
    const LaneWord at(i / 4 % 32, i / 128 * 2 + i % 4 / 2, i % 2);
    uint32_t word = 0;
    for (int n = 0; n < 8; ++n) {
      word |= static_cast<uint32_t>(code(at.row, at.col(n / 2, n % 2))) << place(n / 2, n % 2);
    }
    return word;
  }
  SKALD_HD static int at(const std::byte* codes, int row, int col) {
    const CodePlace p(row, col);
    const int i = (p.unit / 2 * 32 + p.lane) * 4 + p.unit % 2 * 2 + p.half;
    return load_word(codes, i) >> place(p.pair, p.i) & 15;
  }
};

// Eight bits: of each unit 16 bytes a lane, of both rows 8 for the first 16 columns, then 8 for the
// others.
struct EightBits {
  static constexpr int kBytes = 2048, kOddScale = 1;
  template <class Code>
  SKALD_HD static uint32_t word(const Code& code, int i) {
    const LaneWord at(i / 4 % 32, i / 128, i % 2);
    uint32_t word = 0;
    for (int n = 0; n < 4; ++n) {
      word |= static_cast<uint32_t>(code(at.row, at.col(i / 2 % 2 * 2 + n / 2, n % 2))) << (n * 8);
    }
    return word;
  }
  SKALD_HD static int at(const std::byte* codes, int row, int col) {
    const CodePlace p(row, col);
    const int i = (p.unit * 32 + p.lane) * 4 + p.pair / 2 * 2 + p.half;
    return load_word(codes, i) >> ((p.pair % 2 * 2 + p.i) * 8) & 255;
  }
};

}  // namespace skald::tiles
