// Dot products of unsigned 8-bit weights and int8 activations, with the best instructions of each
// instruction set. Included once per instruction set.
#if defined(SKALD_CPU_FAST_DOT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SKALD_CPU_FAST_DOT_INL_H_
#undef SKALD_CPU_FAST_DOT_INL_H_
#else
#define SKALD_CPU_FAST_DOT_INL_H_
#endif

#include <cstring>

#include "engine/cpu/fast_simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace skald::cpu::HWY_NAMESPACE {
namespace {

// Adds four products to each lane: the four unsigned weight bytes of the lane times four
// activations that all lanes share. split() prepares weights once for all rows.
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3_DL
inline constexpr int64_t kUnit = 4;  // bytes of four activations: int8

struct SplitWeights {
  VU bytes;
};
HWY_INLINE SplitWeights split(VU four) { return {four}; }
// Inline assembly: Highway lacks this instruction, and g++ does not fold the broadcast into it.
HWY_INLINE VI add_products(VI sum, const SplitWeights& w, const std::byte* x) {
  asm("vpdpbusd %2%{1to16%}, %1, %0"
      : "+v"(sum.raw)
      : "v"(w.bytes.raw), "m"(*reinterpret_cast<const int32_t*>(x)));
  return sum;
}
#else
inline constexpr int64_t kUnit = 8;  // bytes of four activations: int16, in the order 0, 2, 1, 3

using D16 = hn::Repartition<int16_t, DU>;
struct SplitWeights {
  hn::Vec<D16> even, odd;
};
HWY_INLINE SplitWeights split(VU four) {
  const D16 d;
  const hn::Repartition<uint16_t, DU> du;
  return {hn::BitCast(d, hn::And(four, hn::Set(DU(), 0x00ff00ffu))),
          hn::BitCast(d, hn::ShiftRight<8>(hn::BitCast(du, four)))};
}
HWY_INLINE VI add_pairs(VI sum, hn::Vec<D16> w, hn::Vec<D16> x) {
#if HWY_ARCH_X86 && HWY_TARGET != HWY_EMU128
  VI unused = hn::Zero(DI());
  // Adds neighbouring pairs on these targets
  return hn::ReorderWidenMulAccumulate(DI(), w, x, sum, unused);
#else
  // At most 255 * 127, which fits int16.
  const VI products = hn::BitCast(DI(), hn::Mul(w, x));
  const VI low = hn::ShiftRight<16>(hn::ShiftLeft<16>(products));
  return hn::Add(sum, hn::Add(low, hn::ShiftRight<16>(products)));
#endif
}
HWY_INLINE VI add_products(VI sum, const SplitWeights& w, const std::byte* x) {
  int32_t even, odd;
  std::memcpy(&even, x, sizeof even);
  std::memcpy(&odd, x + sizeof even, sizeof odd);
  const D16 d;
  sum = add_pairs(sum, w.even, hn::BitCast(d, hn::Set(DI(), even)));
  return add_pairs(sum, w.odd, hn::BitCast(d, hn::Set(DI(), odd)));
}
#endif

}  // namespace
}  // namespace skald::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
