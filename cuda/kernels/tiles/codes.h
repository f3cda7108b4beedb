// The layout in memory of the codes of one part (16 rows x 128 columns), for each number of bits
// per code. The order is the order of a warp's lanes (tiles/layout.h). A plane's word() packs: it
// makes the i-th 32-bit word of the part from code(row, col). Its at() reads one code back. Formats
// of five or six bits have two planes: the low four bits, then the rest. So each access of a lane
// has 4, 8 or 16 bytes.
#pragma once

#include <cstring>

#include "cuda/kernels/tiles/layout.h"
#include "engine/base/float8.h"

namespace skald::tiles {

SKALD_HD inline uint32_t load_word(const std::byte* plane, int i) {
  uint32_t word;
  std::memcpy(&word, plane + i * 4, 4);
  return word;
}

// Packs bits [first, first + kBits) of a lane's four pairs of codes. A pair's first code goes to
// the low 16 bits of the word, its second code to the high 16 bits.
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

// The place of a code: the inverse of LaneWord.
struct CodePlace {
  int lane, unit, half, pair, i;
  SKALD_HD CodePlace(int row, int col)
      : lane(row % 8 * 4 + col % 16 / 4),
        unit(col / 32),
        half(row / 8),
        pair(col % 32 / 16 * 2 + col % 4 / 2),
        i(col % 2) {}
};

// kOddScale, in each plane: a lane masks the codes of pairs 1 and 3 in place instead of shifting
// them, so they come out multiplied by kOddScale. The activations of these columns are divided by
// it.

// Four bits per code: 16 bytes per lane for each 64 columns.
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

// Upper bits of several units share a word. pairs_at() is the bit at which the upper bits of 16
// columns begin: k / 2 is the unit, k % 2 the half of its columns. Their second pair lies `apart`
// bits higher. Both pairs lie in the bytes in which FourBits has the low bits of the same columns,
// at the same distance. So one mask fits both planes, and one shift moves both pairs above the low
// bits.
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

// Two upper bits per code: 16 bytes per lane; a word has two units.
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

// One upper bit per code: 8 bytes per lane; a word has four units.
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

// Codes of two or three bits, in formats with a scale for each 16 columns. A word has the first (m
// = 0) or the last (m = 1) 16 columns of several units. Byte n of the word has code n / 2 of pair n
// % 2 of each of these units. So a mask that keeps the same bits of each byte leaves codes of a
// single block of 16 columns.
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

// Two bits per code: 16 bytes per lane; a word has all four units.
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

// Three bits per code: a word has two units, in the low six bits of each byte. Word k has units k /
// 2
// * 2 and the next, half k % 2 of their columns. Words 0 and 1 of both rows come first, 16 bytes a
// lane; word 2 of both rows follows, 8 bytes per lane. Word 3 has no place of its own: word k = 0
// to 2 holds bits 2 k and 2 k + 1 of its bytes, in the top two bits of each byte.
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

// Codes in one plane.
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

// Codes in two planes: the low kBits bits in the first, the rest in the second.
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

// Four-bit codes that index a table. A lane looks up four codes at a time, which must be adjacent:
// the low half of a word has the unit's first 16 columns. The lookup gives four bytes: bytes 0 and
// 2 are one pair, bytes 1 and 3 the other.
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

// Codes of three bits that index a table, each in a nibble as in TableCodes. A lane has a word k =
// unit * 2 + half of eight nibbles for each unit and row. Words 0 to 3 come first, 16 bytes per
// lane; words 4 and 5 follow, 8 bytes per lane. Words 6 and 7 have no place of their own: bit n of
// their codes lies in the top bits of the nibbles of word 2 * n + k % 2.
struct TableCodes3 {
  static constexpr int kBytes = 768, kOddScale = 1, kSecondAt = 512, kStored = 6;
  SKALD_HD static constexpr int word_at(int lane, int k) {
    return k < 4 ? lane * 4 + k : kSecondAt / 4 + lane * 2 + k - 4;
  }
  template <class Code>
  SKALD_HD static uint32_t word(const Code& code, int i) {
    const bool second = i >= kSecondAt / 4;
    const int lane = second ? (i - kSecondAt / 4) / 2 : i / 4;
    const int k = second ? 4 + i % 2 : i % 4;
    const LaneWord own(lane, k / 2, k % 2), last(lane, kUnits - 1, k % 2);
    uint32_t word = 0;
    for (int n = 0; n < 8; ++n) {
      const auto low = static_cast<uint32_t>(code(own.row, own.col(n / 2, n % 2)));
      const auto bits = static_cast<uint32_t>(code(last.row, last.col(n / 2, n % 2)));
      word |= (low | (bits >> (k / 2) & 1) << 3) << TableCodes::place(n / 2, n % 2);
    }
    return word;
  }
  SKALD_HD static int at(const std::byte* codes, int row, int col) {
    const CodePlace p(row, col);
    const int k = p.unit * 2 + p.half, place = TableCodes::place(p.pair, p.i);
    if (k < kStored) return load_word(codes, word_at(p.lane, k)) >> place & 7;
    uint32_t code = 0;
    for (int n = 0; n < 3; ++n) {
      code |= (load_word(codes, word_at(p.lane, 2 * n + p.half)) >> (place + 3) & 1) << n;
    }
    return static_cast<int>(code);
  }
};

// Eight bits per code: 16 bytes per lane for each unit. The first 8 bytes are the first 16 columns
// of both rows, the others the last 16 columns.
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

// Codes that are floats of 8 bits, E4M3, or of 4 bits, E2M1.
struct E4m3Codes : EightBits {
  SKALD_HD static float number(int code) { return e4m3_to_f32(static_cast<uint8_t>(code)); }
};
// E2M1: the words lie as those of FourBits. A byte has a code of a unit's first 16 columns (near)
// and one of its last 16 (far):
//   bit   7            6            5           4, 3, 2             1, 0
//         near: sign   far: bit 2   far: sign   near: bits 2 to 0   far: bits 1 and 0
// So one mask leaves `near` in the places that the bits have in E4M3, and two shifts bring `far`
// there.
struct E2m1Codes {
  static constexpr int kBytes = 1024, kOddScale = 1;
  SKALD_HD static float number(int code) { return e2m1_to_f32(code); }
  template <class Code>
  SKALD_HD static uint32_t word(const Code& code, int i) {
    const LaneWord at(i / 4 % 32, i / 128 * 2 + i % 4 / 2, i % 2);
    uint32_t word = 0;
    for (int n = 0; n < 4; ++n) {
      const auto near = static_cast<uint32_t>(code(at.row, at.col(n / 2, n % 2)));
      const auto far = static_cast<uint32_t>(code(at.row, at.col(n / 2 + 2, n % 2)));
      word |= ((near & 8) << 4 | (near & 7) << 2 | (far & 8) << 2 | (far & 4) << 4 | (far & 3))
              << (8 * n);
    }
    return word;
  }
  SKALD_HD static int at(const std::byte* codes, int row, int col) {
    const CodePlace p(row, col);
    const int i = (p.unit / 2 * 32 + p.lane) * 4 + p.unit % 2 * 2 + p.half;
    const auto byte = static_cast<int>(load_word(codes, i) >> (8 * (p.pair % 2 * 2 + p.i)) & 255);
    if (p.pair < 2) return (byte >> 4 & 8) | (byte >> 2 & 7);
    return (byte >> 2 & 8) | (byte >> 4 & 4) | (byte & 3);
  }
};

}  // namespace skald::tiles
