// Decodes numbers of the KV cache with vectors. Included once per instruction set through
// hwy/foreach_target.h, hence the unusual include guard.
#if defined(SKALD_CPU_FAST_CACHE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SKALD_CPU_FAST_CACHE_INL_H_
#undef SKALD_CPU_FAST_CACHE_INL_H_
#else
#define SKALD_CPU_FAST_CACHE_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "engine/base/half.h"
#include "engine/cpu/fast_simd-inl.h"
#include "engine/quant/cache_row.h"

HWY_BEFORE_NAMESPACE();
namespace skald::cpu::HWY_NAMESPACE {

// Calls load(i) for each whole vector of numbers from i on, and stores the results. Returns the
// number of numbers that were stored; fewer than kLanes are left.
template <class Load>
HWY_INLINE int64_t decode_vectors(int64_t count, float* to, const Load& load) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) hn::StoreU(load(i), DF(), to + i);
  return i;
}

HWY_INLINE int64_t decode_f16(const std::byte* from, int64_t count, float* to) {
  const auto* codes = reinterpret_cast<const hwy::float16_t*>(from);
  return decode_vectors(count, to, [&](int64_t i) HWY_ATTR {
    return hn::PromoteTo(DF(), hn::LoadU(hn::Rebind<hwy::float16_t, DF>(), codes + i));
  });
}

HWY_INLINE int64_t decode_bf16(const std::byte* from, int64_t count, float* to) {
  const auto* codes = reinterpret_cast<const uint16_t*>(from);
  return decode_vectors(count, to, [&](int64_t i) HWY_ATTR {
    const VU bits = hn::PromoteTo(DU(), hn::LoadU(hn::Rebind<uint16_t, DF>(), codes + i));
    return hn::BitCast(DF(), hn::ShiftLeft<16>(bits));
  });
}

// As e4m3_to_f32(). No float32 that is subnormal takes part: those are slow on some CPUs.
HWY_INLINE int64_t decode_fp8(const std::byte* from, int64_t count, float* to) {
  const auto* codes = reinterpret_cast<const uint8_t*>(from);
  const DF d;
  const DU du;
  return decode_vectors(count, to, [&](int64_t i) HWY_ATTR {
    const VU bits = hn::PromoteTo(du, hn::LoadU(hn::Rebind<uint8_t, DF>(), codes + i));
    const VU magnitude = hn::And(bits, hn::Set(du, 0x7f));
    const VU sign = hn::ShiftLeft<24>(hn::And(bits, hn::Set(du, 0x80)));
    const VU normal = hn::Add(hn::ShiftLeft<20>(magnitude), hn::Set(du, 120u << 23));
    const VF subnormal =
        hn::Mul(hn::ConvertTo(d, hn::BitCast(DI(), magnitude)), hn::Set(d, 0x1p-9f));
    const VU nan = hn::Set(du, 0x7fc00000);
    const VU number =
        hn::IfThenElse(hn::Lt(magnitude, hn::Set(du, 8)), hn::BitCast(du, subnormal), normal);
    const VU value = hn::IfThenElse(hn::Eq(magnitude, hn::Set(du, 0x7f)), nan, number);
    return hn::BitCast(d, hn::Or(sign, value));
  });
}

HWY_INLINE float scale_at(const std::byte* scales, int64_t block) {
  uint16_t bits;
  std::memcpy(&bits, scales + block * static_cast<int64_t>(sizeof bits), sizeof bits);
  return f16_to_f32(bits);
}

HWY_INLINE void decode_q8_0(CacheBytes<const std::byte> from, int64_t count, float* to) {
  const auto* codes = reinterpret_cast<const int8_t*>(from.codes);
  for (int64_t at = 0; at < count; at += kCacheBlock) {
    const VF scale = hn::Set(DF(), scale_at(from.scales, at / kCacheBlock));
    for (int64_t i = at; i < at + kCacheBlock; i += kLanes) {
      const VI code = hn::PromoteTo(DI(), hn::LoadU(hn::Rebind<int8_t, DF>(), codes + i));
      hn::StoreU(hn::Mul(scale, hn::ConvertTo(DF(), code)), DF(), to + i);
    }
  }
}

// A byte has the numbers j (low) and j + 16 of its block.
HWY_INLINE void decode_q4_0(CacheBytes<const std::byte> from, int64_t count, float* to) {
  const auto* codes = reinterpret_cast<const uint8_t*>(from.codes);
  constexpr int kBytes = kCacheBlock / 2;
  const DI di;
  const VI offset = hn::Set(di, 8), mask = hn::Set(di, 15);
  for (int64_t block = 0; block * kCacheBlock < count; ++block) {
    const VF scale = hn::Set(DF(), scale_at(from.scales, block));
    float* const out = to + block * kCacheBlock;
    for (int j = 0; j < kBytes; j += kLanes) {
      const VI pair =
          hn::PromoteTo(di, hn::LoadU(hn::Rebind<uint8_t, DF>(), codes + block * kBytes + j));
      const VI low = hn::Sub(hn::And(pair, mask), offset);
      const VI high = hn::Sub(hn::ShiftRight<4>(pair), offset);
      hn::StoreU(hn::Mul(scale, hn::ConvertTo(DF(), low)), DF(), out + j);
      hn::StoreU(hn::Mul(scale, hn::ConvertTo(DF(), high)), DF(), out + j + kBytes);
    }
  }
}

// decode_cache() with vectors, and with the same results.
HWY_INLINE void decode_numbers(CacheType type, CacheBytes<const std::byte> from, int64_t count,
                               float* to) {
  int64_t done = count;
  switch (type) {
    case CacheType::F32:
      std::memcpy(to, from.codes, static_cast<size_t>(count) * sizeof(float));
      break;
    case CacheType::F16:
      done = decode_f16(from.codes, count, to);
      break;
    case CacheType::BF16:
      done = decode_bf16(from.codes, count, to);
      break;
    case CacheType::FP8:
      done = decode_fp8(from.codes, count, to);
      break;
    case CacheType::Q8_0:
      decode_q8_0(from, count, to);
      break;
    case CacheType::Q4_0:
      decode_q4_0(from, count, to);
      break;
  }
  if (done == count) return;
  const std::byte* const rest = from.codes + done * code_bits(type) / 8;
  decode_cache(type, {rest, nullptr}, count - done, to + done);
}

}  // namespace skald::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
