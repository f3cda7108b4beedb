// Unpacks the formats with blocks of 256 weights; see fast_unpack-inl.h. Included once per
// instruction set.
#if defined(SKALD_CPU_FAST_UNPACK_K_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SKALD_CPU_FAST_UNPACK_K_INL_H_
#undef SKALD_CPU_FAST_UNPACK_K_INL_H_
#else
#define SKALD_CPU_FAST_UNPACK_K_INL_H_
#endif

#include <cstddef>
#include <cstring>

#include "engine/cpu/fast_linear_int8.h"
#include "engine/cpu/fast_simd-inl.h"
#include "engine/cpu/fast_unpack-inl.h"
#include "engine/cpu/grid_bytes.h"
#include "engine/quant/formats/iq1_m.h"
#include "engine/quant/formats/iq1_s.h"
#include "engine/quant/formats/iq2_s.h"
#include "engine/quant/formats/iq2_xs.h"
#include "engine/quant/formats/iq2_xxs.h"
#include "engine/quant/formats/iq3_s.h"
#include "engine/quant/formats/iq3_xxs.h"
#include "engine/quant/formats/iq4_xs.h"
#include "engine/quant/formats/q2_k.h"
#include "engine/quant/formats/q3_k.h"
#include "engine/quant/formats/q4_k.h"
#include "engine/quant/formats/q5_k.h"
#include "engine/quant/formats/q6_k.h"
#include "engine/quant/formats/tq1_0.h"
#include "engine/quant/formats/tq2_0.h"

HWY_BEFORE_NAMESPACE();
namespace skald::cpu::HWY_NAMESPACE {
namespace {

struct UnpackIq4Xs {
  using Block = BlockIQ4_XS;
  static constexpr Int8Format kFormat{DType::IQ4_XS, 32, false, 128, nullptr, nullptr};
  template <class Sink>
  static HWY_INLINE void block(const Rows& rows, Sink& w) {
    const VU head = rows.dword(0), low = rows.dword(4);
    const VF d = low_f16(head);
    SKALD_UNROLL
    for (int g = 0; g < 8; ++g) {
      unpack_nibbles(rows, 8 + 16 * g, w, 32 * g,
                     [](VU v, int) HWY_ATTR { return choose(kIq4Values, v); });
      const VU four = hn::And(hn::ShiftRightSame(low, 4 * g), hn::Set(DU(), 15));
      const VU two = hn::And(hn::ShiftRightSame(head, 16 + 2 * g), hn::Set(DU(), 3));
      const VF scale = hn::Sub(to_float(hn::Or(four, hn::ShiftLeft<4>(two))), hn::Set(DF(), 32.0f));
      w.put_scale(hn::Mul(d, scale));
    }
  }
};

// Byte i of each lane.
template <int i>
HWY_INLINE VU byte(VU v) {
  return hn::And(hn::ShiftRight<8 * i>(v), hn::Set(DU(), 255));
}

// Puts a sub-block's scale, then its min: sinks rely on this order.
template <int i, class Sink>
HWY_INLINE void put_factors(Sink& w, VF d, VU scales, VF min, VU mins) {
  w.put_scale(hn::Mul(d, to_float(byte<i>(scales))));
  w.put_min(hn::Mul(min, to_float(byte<i>(mins))));
}

// Unpacks the scales and mins of Q4_K and Q5_K from the first 16 bytes of a block: scale and min as
// f16, then the 12 bytes that engine/quant/formats/q4_k_scales.h describes.
template <class Sink>
HWY_INLINE void unpack_k_scales(const Rows& rows, Sink& w) {
  VU head[4];
  rows.dwords(0, head);
  const VF d = low_f16(head[0]), min = hn::Neg(high_f16(head[0]));
  const VU low6 = bytes(63), top2 = bytes(0x30);
  const VU s[2] = {hn::And(head[1], low6),
                   hn::Or(low_nibbles(head[3]), hn::And(hn::ShiftRight<2>(head[1]), top2))};
  const VU m[2] = {hn::And(head[2], low6),
                   hn::Or(high_nibbles(head[3]), hn::And(hn::ShiftRight<2>(head[2]), top2))};
  SKALD_UNROLL
  for (int half = 0; half < 2; ++half) {
    put_factors<0>(w, d, s[half], min, m[half]);
    put_factors<1>(w, d, s[half], min, m[half]);
    put_factors<2>(w, d, s[half], min, m[half]);
    put_factors<3>(w, d, s[half], min, m[half]);
  }
}

struct UnpackQ4K {
  using Block = BlockQ4_K;
  static constexpr Int8Format kFormat{DType::Q4_K, 32, true, 0, nullptr, nullptr};
  template <class Sink>
  static HWY_INLINE void block(const Rows& rows, Sink& w) {
    SKALD_UNROLL
    for (int pair = 0; pair < 4; ++pair) {
      SKALD_UNROLL
      for (int part = 0; part < 2; ++part) {
        VU v[4];
        rows.dwords(16 + 32 * pair + 16 * part, v);
        const int64_t column = 64 * pair + 16 * part;
        SKALD_UNROLL
        for (int j = 0; j < 4; ++j) w.put(column + 4 * j, low_nibbles(v[j]));
        SKALD_UNROLL
        for (int j = 0; j < 4; ++j) w.put(column + 32 + 4 * j, high_nibbles(v[j]));
      }
    }
    unpack_k_scales(rows, w);
  }
};

struct UnpackQ5K {
  using Block = BlockQ5_K;
  static constexpr Int8Format kFormat{DType::Q5_K, 32, true, 0, nullptr, nullptr};
  template <class Sink>
  static HWY_INLINE void block(const Rows& rows, Sink& w) {
    SKALD_UNROLL
    for (int part = 0; part < 2; ++part) {
      VU high[4];
      rows.dwords(16 + 16 * part, high);
      SKALD_UNROLL
      for (int pair = 0; pair < 4; ++pair) {
        VU v[4];
        rows.dwords(48 + 32 * pair + 16 * part, v);
        const int64_t column = 64 * pair + 16 * part;
        SKALD_UNROLL
        for (int j = 0; j < 4; ++j) {
          const VU bits = hn::ShiftRightSame(high[j], 2 * pair);
          const VU low = hn::ShiftLeft<4>(hn::And(bits, bytes(1)));
          const VU upper = hn::ShiftLeft<3>(hn::And(bits, bytes(2)));
          w.put(column + 4 * j, hn::Or(low_nibbles(v[j]), low));
          w.put(column + 32 + 4 * j, hn::Or(high_nibbles(v[j]), upper));
        }
      }
    }
    unpack_k_scales(rows, w);
  }
};

struct UnpackQ6K {
  using Block = BlockQ6_K;
  static constexpr Int8Format kFormat{DType::Q6_K, 16, false, 32, nullptr, nullptr};
  template <class Sink>
  static HWY_INLINE void block(const Rows& rows, Sink& w) {
    const VU two = bytes(0x30);
    SKALD_UNROLL
    for (int half = 0; half < 2; ++half) {
      SKALD_UNROLL
      for (int part = 0; part < 2; ++part) {
        VU a[4], b[4], high[4];
        rows.dwords(64 * half + 16 * part, a);
        rows.dwords(64 * half + 32 + 16 * part, b);
        rows.dwords(128 + 32 * half + 16 * part, high);
        const int64_t column = 128 * half + 16 * part;
        SKALD_UNROLL
        for (int j = 0; j < 4; ++j) {
          const VU h = high[j];
          w.put(column + 4 * j, hn::Or(low_nibbles(a[j]), hn::And(hn::ShiftLeft<4>(h), two)));
          w.put(column + 32 + 4 * j, hn::Or(low_nibbles(b[j]), hn::And(hn::ShiftLeft<2>(h), two)));
          w.put(column + 64 + 4 * j, hn::Or(high_nibbles(a[j]), hn::And(h, two)));
          w.put(column + 96 + 4 * j,
                hn::Or(high_nibbles(b[j]), hn::And(hn::ShiftRight<2>(h), two)));
        }
      }
    }
    const VF d = high_f16(rows.dword(206));
    VU scales[4];
    rows.dwords(192, scales);
    SKALD_UNROLL
    for (const VU four : scales) {
      const VI s = hn::BitCast(DI(), four);
      w.put_scale(hn::Mul(d, hn::ConvertTo(DF(), hn::ShiftRight<24>(hn::ShiftLeft<24>(s)))));
      w.put_scale(hn::Mul(d, hn::ConvertTo(DF(), hn::ShiftRight<24>(hn::ShiftLeft<16>(s)))));
      w.put_scale(hn::Mul(d, hn::ConvertTo(DF(), hn::ShiftRight<24>(hn::ShiftLeft<8>(s)))));
      w.put_scale(hn::Mul(d, hn::ConvertTo(DF(), hn::ShiftRight<24>(s))));
    }
  }
};

struct UnpackQ2K {
  using Block = BlockQ2_K;
  static constexpr Int8Format kFormat{DType::Q2_K, 16, true, 0, nullptr, nullptr};
  template <class Sink>
  static HWY_INLINE void block(const Rows& rows, Sink& w) {
    SKALD_UNROLL
    for (int half = 0; half < 2; ++half) {
      SKALD_UNROLL
      for (int part = 0; part < 2; ++part) {
        VU v[4];
        rows.dwords(16 + 32 * half + 16 * part, v);
        const int64_t column = 128 * half + 16 * part;
        SKALD_UNROLL
        for (int j = 0; j < 4; ++j) {
          w.put(column + 4 * j, hn::And(v[j], bytes(3)));
          w.put(column + 32 + 4 * j, hn::And(hn::ShiftRight<2>(v[j]), bytes(3)));
          w.put(column + 64 + 4 * j, hn::And(hn::ShiftRight<4>(v[j]), bytes(3)));
          w.put(column + 96 + 4 * j, hn::And(hn::ShiftRight<6>(v[j]), bytes(3)));
        }
      }
    }
    const VU factors = rows.dword(80);
    const VF d = low_f16(factors), min = hn::Neg(high_f16(factors));
    VU scales[4];
    rows.dwords(0, scales);
    SKALD_UNROLL
    for (const VU four : scales) {
      const VU s = low_nibbles(four), m = high_nibbles(four);
      put_factors<0>(w, d, s, min, m);
      put_factors<1>(w, d, s, min, m);
      put_factors<2>(w, d, s, min, m);
      put_factors<3>(w, d, s, min, m);
    }
  }
};

struct UnpackQ3K {
  using Block = BlockQ3_K;
  static constexpr Int8Format kFormat{DType::Q3_K, 16, false, 4, nullptr, nullptr};
  template <class Sink>
  static HWY_INLINE void block(const Rows& rows, Sink& w) {
    SKALD_UNROLL
    for (int part = 0; part < 2; ++part) {
      VU mask[4];
      rows.dwords(16 * part, mask);
      SKALD_UNROLL
      for (int half = 0; half < 2; ++half) {
        VU v[4];
        rows.dwords(32 + 32 * half + 16 * part, v);
        SKALD_UNROLL
        for (int n = 0; n < 4; ++n) {
          SKALD_UNROLL
          for (int j = 0; j < 4; ++j) {
            const VU low = hn::And(hn::ShiftRightSame(v[j], 2 * n), bytes(3));
            const VU high = hn::And(hn::ShiftRightSame(mask[j], 4 * half + n), bytes(1));
            w.put(128 * half + 32 * n + 16 * part + 4 * j, hn::Or(low, hn::ShiftLeft<2>(high)));
          }
        }
      }
    }
    // The 12 scale bytes of engine/quant/formats/q3_k.h hold s[g], 0 to 63; the group's scale is
    // s[g] - 32.
    VU packed[4];  // bytes 92 to 107; the scales are in the last twelve
    rows.dwords(92, packed);
    const VF d = high_f16(rows.dword(106));
    SKALD_UNROLL
    for (int four = 0; four < 4; ++four) {
      const VU source = packed[1 + four % 2];
      const VU low = four < 2 ? low_nibbles(source) : high_nibbles(source);
      const VU top = hn::And(hn::ShiftRightSame(packed[3], 2 * four), bytes(3));
      const VU s = hn::Or(low, hn::ShiftLeft<4>(top));
      const auto put = [&](VU one) HWY_ATTR {
        w.put_scale(hn::Mul(d, hn::Sub(to_float(one), hn::Set(DF(), 32.0f))));
      };
      put(byte<0>(s));
      put(byte<1>(s));
      put(byte<2>(s));
      put(byte<3>(s));
    }
  }
};

// For each entry of the grid, four bytes 2m + 16: the magnitudes plus the offset 15. The sign
// exchanges 15 + w and 15 - w, whose bits 1 to 4 are opposite.
struct Iq3Bytes {
  alignas(64) uint32_t entries[512];
};
constexpr Iq3Bytes iq3_bytes() {
  Iq3Bytes bytes{};
  for (int i = 0; i < 512; ++i) {
    for (int j = 0; j < 4; ++j) {
      const uint32_t m = kIq3Grid.entries[i] >> (4 * j) & 7u;
      bytes.entries[i] |= (2 * m + 16) << (8 * j);
    }
  }
  return bytes;
}

struct UnpackIq3S {
  using Block = BlockIQ3_S;
  static constexpr Int8Format kFormat{DType::IQ3_S, 32, false, 15, nullptr, nullptr};
  template <class Sink>
  static HWY_INLINE void block(const Rows& rows, Sink& w) {
    static constexpr Iq3Bytes kBytes = iq3_bytes();
    SKALD_UNROLL
    for (int part = 0; part < 4; ++part) {  // 64 weights
      VU q[4];
      rows.dwords(2 + 16 * part, q);
      const VU high = rows.dword(66 + 2 * part);
      const VU signs[2] = {rows.dword(74 + 8 * part), rows.dword(78 + 8 * part)};
      SKALD_UNROLL
      for (int n = 0; n < 16; ++n) {
        const VU low = hn::And(hn::ShiftRightSame(q[n / 4], n % 4 * 8), hn::Set(DU(), 255));
        const VU top = hn::And(hn::ShiftRightSame(high, n), hn::Set(DU(), 1));
        const VU index = hn::Or(low, hn::ShiftLeft<8>(top));
        const VU four = hn::GatherIndex(DU(), kBytes.entries, hn::BitCast(DI(), index));
        const VU negative = hn::ShiftRight<4>(fifth_bits(signs[n / 8], n % 8));
        const VU change = hn::Sub(hn::ShiftLeft<5>(negative), hn::ShiftLeft<1>(negative));
        w.put(64 * part + 4 * n, hn::Xor(four, change));
      }
    }
    const VF d = low_f16(rows.dword(0));
    const VU scales = rows.dword(106);
    SKALD_UNROLL
    for (int g = 0; g < 8; ++g) {
      const VU s = hn::And(hn::ShiftRightSame(scales, 4 * g), hn::Set(DU(), 15));
      const VU factor = hn::Add(hn::ShiftLeft<1>(s), hn::Set(DU(), 1));
      w.put_scale(hn::Mul(d, to_float(factor)));
    }
  }
};

// The other formats with a grid look up eight weights at a time, which a vector of rows would have
// to gather. So a block of one row after the other is spread, without vectors, and then the rows
// are transposed. spread() writes a block's 256 bytes.
HWY_INLINE void put_eight(uint8_t* u, int n, uint64_t bytes) { std::memcpy(u + 8 * n, &bytes, 8); }
// The n-th seven signs of a little-endian number of four bytes.
HWY_INLINE uint64_t negative_of(uint32_t number, int n) {
  return kSignBytes.of_seven[number >> (7 * n) & 127];
}

HWY_INLINE void spread(const BlockIQ2_XXS& b, uint8_t* u) {
  for (int g = 0; g < 8; ++g) {
    const BlockIQ2_XXS::Group& group = b.groups[g];
    uint32_t signs;
    std::memcpy(&signs, group.signs, 4);
    SKALD_UNROLL
    for (int n = 0; n < 4; ++n) {
      const uint64_t bytes = kIq2XxsBytes.entries[group.q[n]];
      put_eight(u, 4 * g + n, with_signs<kIq2Offset>(bytes, negative_of(signs, n)));
    }
  }
}
HWY_INLINE void spread(const BlockIQ2_XS& b, uint8_t* u) {
  for (int n = 0; n < 32; ++n) {
    const uint64_t bytes = kIq2XsBytes.entries[b.q[n] & 511];
    put_eight(u, n, with_signs<kIq2Offset>(bytes, kSignBytes.of_seven[b.q[n] >> 9]));
  }
}
HWY_INLINE void spread(const BlockIQ2_S& b, uint8_t* u) {
  for (int n = 0; n < 32; ++n) {
    const int entry = b.q[n] | (b.high[n / 4] >> (n % 4 * 2) & 3) << 8;
    const uint64_t bytes = kIq2SBytes.entries[entry];
    put_eight(u, n, with_signs<kIq2Offset>(bytes, kSignBytes.of_eight[b.signs[n]]));
  }
}
HWY_INLINE void spread(const BlockIQ3_XXS& b, uint8_t* u) {
  for (int g = 0; g < 8; ++g) {
    uint32_t signs;
    std::memcpy(&signs, b.signs[g], 4);
    SKALD_UNROLL
    for (int n = 0; n < 4; ++n) {
      const uint8_t* q = b.q + 8 * g + 2 * n;
      const uint64_t bytes = kIq3XxsBytes.entries[q[0]] | uint64_t{kIq3XxsBytes.entries[q[1]]}
                                                              << 32;
      put_eight(u, 4 * g + n, with_signs<kIq3XxsOffset>(bytes, negative_of(signs, n)));
    }
  }
}
// The bytes of an entry of IQ1's grid; `minus`: 1 if the shift is negative.
HWY_INLINE uint64_t iq1_bytes(int entry, int minus) {
  return kIq1Bytes.entries[entry] - static_cast<uint64_t>(minus) * 0x0202020202020202;
}
HWY_INLINE void spread(const BlockIQ1_S& b, uint8_t* u) {
  for (int n = 0; n < 32; ++n) {
    const int high = b.high[n / 4];
    put_eight(u, n, iq1_bytes(b.q[n] | (high >> (n % 4 * 3) & 7) << 8, high >> 15));
  }
}
HWY_INLINE void spread(const BlockIQ1_M& b, uint8_t* u) {
  for (int n = 0; n < 32; ++n) {
    const int high = b.high[n / 2] >> (n % 2 * 4) & 15;
    put_eight(u, n, iq1_bytes(b.q[n] | (high & 7) << 8, high >> 3));
  }
}
// Eight times a ternary code.
template <int kBytes, int kPowers>
HWY_INLINE void spread_ternary(const uint8_t* q, uint8_t* u) {
  uint8_t bytes[kBytes];
  std::memcpy(bytes, q, kBytes);
  for (int k = 0; k < kPowers; ++k) {
    for (int m = 0; m < kBytes; ++m) {
      u[kBytes * k + m] = static_cast<uint8_t>(bytes[m] * 3 >> 8 << 3);
      bytes[m] = static_cast<uint8_t>(bytes[m] * 3);
    }
  }
}
HWY_INLINE void spread(const BlockTQ1_0& b, uint8_t* u) {
  spread_ternary<32, 5>(b.q, u);
  spread_ternary<16, 5>(b.q + 32, u + 160);
  spread_ternary<4, 4>(b.high, u + 240);
}
HWY_INLINE void spread(const BlockTQ2_0& b, uint8_t* u) {
  for (int half = 0; half < 2; ++half) {
    for (int l = 0; l < 4; ++l) {
      for (int m = 0; m < 32; ++m) {
        const int code = b.q[32 * half + m] >> (2 * l) & 3;
        u[128 * half + 32 * l + m] = static_cast<uint8_t>(code << 3);
      }
    }
  }
}

HWY_INLINE float whole_scale(const BlockIQ1_M& b) { return f16_to_f32(scale_bits(b)) / 8; }
HWY_INLINE float whole_scale(const BlockIQ3_XXS& b) { return f16_to_f32(b.scale) / 2; }
template <class Block>
HWY_INLINE float whole_scale(const Block& b) {
  return f16_to_f32(b.scale) / 8;
}

template <class B, int kSubBlock>
void unpack_spread(const BlockRows& rows, int64_t k, int64_t count, const PackedWeights& to) {
  constexpr int64_t kBytes = sizeof(B), kElems = B::kElems, kScales = kElems / kSubBlock;
  const int64_t first = k / kElems;
  for (int64_t i = 0; i < count / kElems; ++i) {
    const std::byte* ahead = rows.ahead + (first + i) * kBytes * kLanes;
    for (int64_t at = 0; at < kBytes * kLanes; at += 64) __builtin_prefetch(ahead + at, 0, 2);
    alignas(64) uint8_t u[kLanes][kElems];
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      B block;
      std::memcpy(&block, rows.data + lane * rows.stride + (first + i) * kBytes, kBytes);
      spread(block, u[lane]);
      const float whole = whole_scale(block);
      for (int g = 0; g < kScales; ++g) {
        to.scale[(i * kScales + g) * kLanes + lane] =
            whole * static_cast<float>(byte_scale(block, g));
      }
    }
    for (int64_t column = 0; column < kElems; column += 16) {
      VU v[4];
      load_transposed(reinterpret_cast<const std::byte*>(u[0]) + column, kElems, v);
      uint8_t* out = to.u + (i * kElems + column) * kLanes;
      SKALD_UNROLL
      for (int j = 0; j < 4; ++j) {
        hn::Store(v[j], DU(), reinterpret_cast<uint32_t*>(out + 4 * j * kLanes));
      }
    }
  }
}

// kSubBlock: how many weights share byte_scale(). One row is multiplied like several.
template <class B, int kSubBlock = 16>
constexpr Int8Format spread_format(DType type, int offset) {
  return {type, kSubBlock, false, offset, unpack_spread<B, kSubBlock>, nullptr};
}

}  // namespace
}  // namespace skald::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
