// Unpacks block formats for kLanes weight rows at once: 16 bytes of each row are transposed so that
// each lane belongs to one row, then shifts and masks separate the codes. Included once per
// instruction set.
#if defined(SKALD_CPU_FAST_UNPACK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SKALD_CPU_FAST_UNPACK_INL_H_
#undef SKALD_CPU_FAST_UNPACK_INL_H_
#else
#define SKALD_CPU_FAST_UNPACK_INL_H_
#endif

#include <cstddef>

#include "engine/cpu/fast_linear_int8.h"
#include "engine/cpu/fast_simd-inl.h"
#include "engine/quant/formats/iq4_nl.h"
#include "engine/quant/formats/mxfp4.h"
#include "engine/quant/formats/q4_0.h"
#include "engine/quant/formats/q4_1.h"
#include "engine/quant/formats/q5_0.h"
#include "engine/quant/formats/q5_1.h"
#include "engine/quant/formats/q8_0.h"

HWY_BEFORE_NAMESPACE();
namespace skald::cpu::HWY_NAMESPACE {
namespace {

// The blocks of kLanes weight rows at one column.
struct Rows {
  const std::byte* p;
  int64_t stride;
  const std::byte* ahead;  // start of kLanes blocks that are read later, for prefetching

  HWY_INLINE VU dword(int64_t offset) const {
    const VI rows = hn::Mul(hn::Iota(DI(), 0), hn::Set(DI(), static_cast<int32_t>(stride)));
    return hn::GatherOffset(DU(), reinterpret_cast<const uint32_t*>(p + offset), rows);
  }
  HWY_INLINE void dwords(int64_t offset, VU (&out)[4]) const {
    // Prefetches as many bytes as this function reads. A few lines at a time, because a core tracks
    // only about a dozen outstanding lines.
    for (int64_t i = 0; i <= 16 * kLanes; i += 64)
      __builtin_prefetch(ahead + offset * kLanes + i, 0, 2);
    load_transposed(p + offset, stride, out);
  }
};

HWY_INLINE VU bytes(uint32_t value) { return hn::Set(DU(), value * 0x01010101u); }
HWY_INLINE VU low_nibbles(VU v) { return hn::And(v, bytes(15)); }
HWY_INLINE VU high_nibbles(VU v) { return hn::And(hn::ShiftRight<4>(v), bytes(15)); }
HWY_INLINE VF low_f16(VU v) { return f16_lanes(v); }
HWY_INLINE VF high_f16(VU v) { return f16_lanes(hn::ShiftRight<16>(v)); }
HWY_INLINE VF to_float(VU v) { return hn::ConvertTo(DF(), hn::BitCast(DI(), v)); }

// A sink: stores a block's weights, and for each sub-block, in order, a scale and then a min.
struct Writer {
  uint8_t* u;
  float* scale;
  float* min;

  HWY_INLINE void put(int64_t column, VU four) {
    hn::Store(four, DU(), reinterpret_cast<uint32_t*>(u + column * kLanes));
  }
  HWY_INLINE void put_scale(VF v) {
    hn::Store(v, DF(), scale);
    scale += kLanes;
  }
  HWY_INLINE void put_min(VF v) {
    hn::Store(v, DF(), min);
    min += kLanes;
  }
};

// Unpacks 16 bytes of nibbles: low nibbles are columns 0 to 15, high nibbles 16 to 31. `change`
// completes the codes, for example by a fifth bit.
template <class Sink, class Change>
HWY_INLINE void unpack_nibbles(const Rows& rows, int64_t offset, Sink& w, int64_t column,
                               const Change& change) {
  VU v[4];
  rows.dwords(offset, v);
  SKALD_UNROLL
  for (int j = 0; j < 4; ++j) w.put(column + 4 * j, change(low_nibbles(v[j]), j));
  SKALD_UNROLL
  for (int j = 0; j < 4; ++j) w.put(column + 16 + 4 * j, change(high_nibbles(v[j]), 4 + j));
}

struct UnpackQ8_0 {
  using Block = BlockQ8_0;
  static constexpr Int8Format kFormat{DType::Q8_0, 32, false, 128, nullptr, nullptr};
  template <class Sink>
  static HWY_INLINE void block(const Rows& rows, Sink& w) {
    SKALD_UNROLL
    for (int part = 0; part < 2; ++part) {
      VU v[4];
      rows.dwords(2 + 16 * part, v);
      SKALD_UNROLL
      for (int j = 0; j < 4; ++j) w.put(16 * part + 4 * j, hn::Xor(v[j], bytes(0x80)));
    }
    w.put_scale(low_f16(rows.dword(0)));
  }
};

struct UnpackQ4_0 {
  using Block = BlockQ4_0;
  static constexpr Int8Format kFormat{DType::Q4_0, 32, false, 8, nullptr, nullptr};
  template <class Sink>
  static HWY_INLINE void block(const Rows& rows, Sink& w) {
    unpack_nibbles(rows, 2, w, 0, [](VU v, int) HWY_ATTR { return v; });
    w.put_scale(low_f16(rows.dword(0)));
  }
};

struct UnpackQ4_1 {
  using Block = BlockQ4_1;
  static constexpr Int8Format kFormat{DType::Q4_1, 32, true, 0, nullptr, nullptr};
  template <class Sink>
  static HWY_INLINE void block(const Rows& rows, Sink& w) {
    unpack_nibbles(rows, 4, w, 0, [](VU v, int) HWY_ATTR { return v; });
    const VU scales = rows.dword(0);
    w.put_scale(low_f16(scales));
    w.put_min(high_f16(scales));
  }
};

// Bits 4j to 4j + 3 of each lane become bit 4 of the lane's four bytes.
HWY_INLINE VU fifth_bits(VU bits, int j) {
  const VU four = hn::And(hn::ShiftRightSame(bits, 4 * j), hn::Set(DU(), 15));
  const VU spread = hn::Or(hn::Or(four, hn::ShiftLeft<7>(four)),
                           hn::Or(hn::ShiftLeft<14>(four), hn::ShiftLeft<21>(four)));
  return hn::ShiftLeft<4>(hn::And(spread, bytes(1)));
}

struct UnpackQ5_0 {
  using Block = BlockQ5_0;
  static constexpr Int8Format kFormat{DType::Q5_0, 32, false, 16, nullptr, nullptr};
  template <class Sink>
  static HWY_INLINE void block(const Rows& rows, Sink& w) {
    const VU high = rows.dword(2);
    unpack_nibbles(rows, 6, w, 0,
                   [&](VU v, int j) HWY_ATTR { return hn::Or(v, fifth_bits(high, j)); });
    w.put_scale(low_f16(rows.dword(0)));
  }
};

struct UnpackQ5_1 {
  using Block = BlockQ5_1;
  static constexpr Int8Format kFormat{DType::Q5_1, 32, true, 0, nullptr, nullptr};
  template <class Sink>
  static HWY_INLINE void block(const Rows& rows, Sink& w) {
    const VU high = rows.dword(4);
    unpack_nibbles(rows, 8, w, 0,
                   [&](VU v, int j) HWY_ATTR { return hn::Or(v, fifth_bits(high, j)); });
    const VU scales = rows.dword(0);
    w.put_scale(low_f16(scales));
    w.put_min(high_f16(scales));
  }
};

// Table lookup: the low four bits of each byte select one of 16 bytes.
HWY_INLINE VU choose(const uint8_t (&table)[16], VU index) {
  const hn::Repartition<uint8_t, DU> d8;
  return hn::BitCast(DU(), hn::TableLookupBytes(hn::LoadDup128(d8, table), hn::BitCast(d8, index)));
}

// The value tables of the formats, plus the format's offset.
alignas(16) inline constexpr uint8_t kIq4Values[16] = {1,   24,  45,  63,  79,  93,  106, 118,
                                                       129, 141, 153, 166, 181, 197, 217, 241};
alignas(16) inline constexpr uint8_t kMxfp4Values[16] = {12, 13, 14, 15, 16, 18, 20, 24,
                                                         12, 11, 10, 9,  8,  6,  4,  0};

struct UnpackIq4Nl {
  using Block = BlockIQ4_NL;
  static constexpr Int8Format kFormat{DType::IQ4_NL, 32, false, 128, nullptr, nullptr};
  template <class Sink>
  static HWY_INLINE void block(const Rows& rows, Sink& w) {
    unpack_nibbles(rows, 2, w, 0, [](VU v, int) HWY_ATTR { return choose(kIq4Values, v); });
    w.put_scale(low_f16(rows.dword(0)));
  }
};

struct UnpackMxfp4 {
  using Block = BlockMXFP4;
  static constexpr Int8Format kFormat{DType::MXFP4, 32, false, 12, nullptr, nullptr};
  template <class Sink>
  static HWY_INLINE void block(const Rows& rows, Sink& w) {
    unpack_nibbles(rows, 1, w, 0, [](VU v, int) HWY_ATTR { return choose(kMxfp4Values, v); });
    // 2^(e - 128); for e = 0 and 1 the result is subnormal.
    const VU e = hn::And(rows.dword(0), hn::Set(DU(), 255));
    const VU normal = hn::ShiftLeft<23>(hn::Sub(e, hn::Set(DU(), 1)));
    const VU small = hn::IfThenElse(hn::Eq(e, hn::Zero(DU())), hn::Set(DU(), 0x00200000u),
                                    hn::Set(DU(), 0x00400000u));
    const VU two = hn::Set(DU(), 2);
    const VU bits = hn::IfThenElse(hn::Eq(hn::Max(e, two), e), normal, small);
    w.put_scale(hn::BitCast(DF(), bits));
  }
};

}  // namespace
}  // namespace skald::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
