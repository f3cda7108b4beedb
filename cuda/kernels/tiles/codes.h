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

// Two or three bits, where 16 columns have a scale. A byte has a code of each of several 16 columns,
// so that what a mask leaves of a word is of the same 16: of these the n-th byte has pair n % 2's
// code n / 2. Six or four bits of a byte are a unit's, those of its first 16 columns below.
template <int kBits, class Code>
SKALD_HD uint32_t unit_bits(const Code& code, const LaneWord& at, int n) {
  uint32_t bits = 0;
  for (int m = 0; m < 2; ++m) {
    bits |= static_cast<uint32_t>(code(at.row, at.col(m * 2 + n % 2, n / 2))) << (m * kBits);
  }
  return bits;
}
SKALD_HD inline uint32_t byte_of(uint32_t word, const CodePlace& p) {
  return word >> ((p.pair % 2 + p.i * 2) * 8) & 255;
}

// Two bits: 16 bytes a lane, two units a word.
struct TwoBitsBy16 {
  static constexpr int kBytes = 512, kOddScale = 1;
  template <class Code>
  SKALD_HD static uint32_t word(const Code& code, int i) {
    uint32_t word = 0;
    for (int n = 0; n < 4; ++n) {
      for (int k = 0; k < 2; ++k) {
        word |= unit_bits<2>(code, {i / 4, i % 2 * 2 + k, i / 2 % 2}, n) << (n * 8 + k * 4);
      }
    }
    return word;
  }
  SKALD_HD static int at(const std::byte* plane, const CodePlace& p) {
    const uint32_t word = load_word(plane, p.lane * 4 + p.half * 2 + p.unit / 2);
    return byte_of(word, p) >> (p.unit % 2 * 4 + p.pair / 2 * 2) & 3;
  }
};

// Three bits: of both rows of units 0 and 1 16 bytes a lane, then of unit 2 8. Two bits of a byte
// are left, in which these three units have the six of unit 3.
struct ThreeBitsBy16 {
  static constexpr int kBytes = 768, kOddScale = 1, kLast = 3;
  static constexpr int kUnit2At = 512;
  SKALD_HD static constexpr int word_at(int lane, int unit, int half) {
    return unit < 2 ? lane * 4 + unit * 2 + half : kUnit2At / 4 + lane * 2 + half;
  }
  template <class Code>
  SKALD_HD static uint32_t word(const Code& code, int i) {
    const int unit = i < kUnit2At / 4 ? i % 4 / 2 : 2;
    const int lane = unit < 2 ? i / 4 : (i - kUnit2At / 4) / 2;
    uint32_t word = 0;
    for (int n = 0; n < 4; ++n) {
      const uint32_t last = unit_bits<3>(code, {lane, kLast, i % 2}, n);
      const uint32_t bits = unit_bits<3>(code, {lane, unit, i % 2}, n) | last >> (unit * 2) << 6;
      word |= (bits & 255) << (n * 8);
    }
    return word;
  }
  SKALD_HD static int at(const std::byte* plane, const CodePlace& p) {
    uint32_t bits = 0;
    if (p.unit < kLast) {
      bits = byte_of(load_word(plane, word_at(p.lane, p.unit, p.half)), p);
    } else {
      for (int unit = 0; unit < kLast; ++unit) {
        bits |= byte_of(load_word(plane, word_at(p.lane, unit, p.half)), p) >> 6 << (unit * 2);
      }
    }
    return bits >> (p.pair / 2 * 3) & 7;
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
