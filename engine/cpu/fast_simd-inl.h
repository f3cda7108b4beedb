// Vector helpers of several SIMD files. Included once per instruction set through
// hwy/foreach_target.h, hence the unusual include guard.
#if defined(SKALD_CPU_FAST_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SKALD_CPU_FAST_SIMD_INL_H_
#undef SKALD_CPU_FAST_SIMD_INL_H_
#else
#define SKALD_CPU_FAST_SIMD_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

// Unrolls loops over arrays of vectors: otherwise the vectors do not stay in registers. Off for the
// oldest instruction sets: they have too few registers anyway, and unrolling takes long to compile.
#undef SKALD_UNROLL
#if HWY_TARGET == HWY_EMU128 || HWY_TARGET == HWY_SSE4
#define SKALD_UNROLL
#elif HWY_COMPILER_GCC_ACTUAL
#define SKALD_UNROLL _Pragma("GCC unroll 16")
#else
#define SKALD_UNROLL _Pragma("unroll")
#endif

HWY_BEFORE_NAMESPACE();
namespace skald::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using DF = hn::ScalableTag<float>;
using DI = hn::ScalableTag<int32_t>;
using DU = hn::ScalableTag<uint32_t>;
using VF = hn::Vec<DF>;
using VI = hn::Vec<DI>;
using VU = hn::Vec<DU>;
inline constexpr int kLanes = static_cast<int>(hn::MaxLanes(DF()));

// True if the CPU converts float16 in hardware, rounding to nearest even.
inline constexpr bool kHardwareF16 =
    HWY_TARGET == HWY_NEON || (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2);

// sum_four(): lane 0 of the result is the sum of a's lanes, lane 1 the sum of b's, and so on, in
// one fixed order of additions.
HWY_INLINE hn::Vec<hn::Full128<float>> sum_lanes(hn::Vec<hn::Full128<float>> v) { return v; }
#if HWY_CAP_GE256
HWY_INLINE hn::Vec<hn::Full128<float>> sum_lanes(hn::Vec<hn::Full256<float>> v) {
  const hn::Full128<float> d;
  return hn::Add(hn::LowerHalf(d, v), hn::UpperHalf(d, v));
}
#endif
#if HWY_CAP_GE512
HWY_INLINE hn::Vec<hn::Full128<float>> sum_lanes(hn::Vec<hn::Full512<float>> v) {
  const hn::Full256<float> d;
  return sum_lanes(hn::Add(hn::LowerHalf(d, v), hn::UpperHalf(d, v)));
}
#endif
HWY_INLINE hn::Vec<hn::Full128<float>> sum_four(VF a, VF b, VF c, VF d) {
  const DF df;
  const VF ac = hn::Add(hn::InterleaveLower(df, a, c), hn::InterleaveUpper(df, a, c));
  const VF bd = hn::Add(hn::InterleaveLower(df, b, d), hn::InterleaveUpper(df, b, d));
  return sum_lanes(hn::Add(hn::InterleaveLower(df, ac, bd), hn::InterleaveUpper(df, ac, bd)));
}
HWY_INLINE float sum_one(VF v) {
  const VF zero = hn::Zero(DF());
  return hn::GetLane(sum_four(v, zero, zero, zero));
}

// Calls body(i, n) for each n = kLanes floats from index i on; n is smaller in the last call.
template <class Body>
HWY_INLINE void for_each_vector(int64_t count, const Body& body) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) body(i, kLanes);
  if (i < count) body(i, static_cast<int>(count - i));
}

HWY_INLINE VF load_some(const float* p, int count) {
  if (count == kLanes) return hn::LoadU(DF(), p);
  HWY_ALIGN float padded[kLanes] = {};
  std::memcpy(padded, p, static_cast<size_t>(count) * sizeof(float));
  return hn::Load(DF(), padded);
}

HWY_INLINE void store_some(VF v, float* p, int count) {
  if (count == kLanes) return hn::StoreU(v, DF(), p);
  HWY_ALIGN float padded[kLanes];
  hn::Store(v, DF(), padded);
  std::memcpy(p, padded, static_cast<size_t>(count) * sizeof(float));
}

// Loads 16 bytes from each of several rows, one row for each 128-bit part of a vector.
template <class D>
HWY_INLINE hn::Vec<D> load_parts(D d, const std::byte* p, int64_t stride) {
  constexpr int64_t kRows = static_cast<int64_t>(sizeof(hn::TFromD<D>) * hn::MaxLanes(D())) / 16;
  if constexpr (kRows == 1) {
    return hn::LoadU(d, reinterpret_cast<const hn::TFromD<D>*>(p));
#if HWY_CAP_GE512 && HWY_ARCH_X86
  } else if constexpr (kRows == 4) {
    // An insert from memory can use two vector ports. Combine would insert from registers, which
    // can use one.
    const auto part = [&](int64_t i) {
      return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + i * stride));
    };
    __m512i v = _mm512_castsi128_si512(part(0));
    v = _mm512_inserti32x4(v, part(1), 1);
    v = _mm512_inserti32x4(v, part(2), 2);
    return hn::Vec<D>{_mm512_inserti32x4(v, part(3), 3)};
#endif
  } else {
    const hn::Half<D> half;
    return hn::Combine(d, load_parts(half, p + kRows / 2 * stride, stride),
                       load_parts(half, p, stride));
  }
}

// Reads 16 bytes from each of kLanes rows: lane r of out[j] is dword j of row r.
HWY_INLINE void load_transposed(const std::byte* p, int64_t stride, VU (&out)[4]) {
  // Keeps the compiler from holding one pointer per row in vector registers.
  asm("" : "+r"(p));
  const DU d;
  const VU a = load_parts(d, p, 4 * stride);
  const VU b = load_parts(d, p + stride, 4 * stride);
  const VU c = load_parts(d, p + 2 * stride, 4 * stride);
  const VU e = load_parts(d, p + 3 * stride, 4 * stride);
  const VU ac_low = hn::InterleaveLower(d, a, c), ac_high = hn::InterleaveUpper(d, a, c);
  const VU be_low = hn::InterleaveLower(d, b, e), be_high = hn::InterleaveUpper(d, b, e);
  out[0] = hn::InterleaveLower(d, ac_low, be_low);
  out[1] = hn::InterleaveUpper(d, ac_low, be_low);
  out[2] = hn::InterleaveLower(d, ac_high, be_high);
  out[3] = hn::InterleaveUpper(d, ac_high, be_high);
}

// Converts the float16 in the low half of each lane.
HWY_INLINE VF f16_lanes(VU bits) {
  const hn::Rebind<uint16_t, DF> d16;
  const hn::Rebind<hwy::float16_t, DF> dhalf;
  const VU low = hn::And(bits, hn::Set(DU(), 0xffff));
  return hn::PromoteTo(DF(), hn::BitCast(dhalf, hn::TruncateTo(d16, low)));
}

// e^x within 2 units in the last place. 0 below the normal numbers, infinity above them, NaN for
// NaN.
HWY_INLINE VF exp_lanes(VF x) {
  const DF d;
  const DI di;
  // e^x = 2^k * e^r with |r| <= ln(2)/2. ln(2) is split in two parts; the first has so few bits
  // that k times it is exact. Only some CPUs pass NaN through Min and Max, so NaN is restored at
  // the end.
  const VF bounded = hn::Min(hn::Max(x, hn::Set(d, -104.0f)), hn::Set(d, 89.0f));
  const VF k = hn::Round(hn::Mul(bounded, hn::Set(d, 1.44269504f)));
  VF r = hn::NegMulAdd(k, hn::Set(d, 0.693359375f), bounded);
  r = hn::NegMulAdd(k, hn::Set(d, -2.12194440e-4f), r);
  VF series = hn::Set(d, 1.0f / 5040);
  series = hn::MulAdd(series, r, hn::Set(d, 1.0f / 720));
  series = hn::MulAdd(series, r, hn::Set(d, 1.0f / 120));
  series = hn::MulAdd(series, r, hn::Set(d, 1.0f / 24));
  series = hn::MulAdd(series, r, hn::Set(d, 1.0f / 6));
  series = hn::MulAdd(series, r, hn::Set(d, 0.5f));
  series = hn::MulAdd(hn::Mul(r, r), series, hn::Add(r, hn::Set(d, 1.0f)));
  // k is between -150 and 128. 2^k is a product of two factors because 2^128 is not a float.
  const VI whole = hn::ConvertTo(di, k);
  const VI half = hn::ShiftRight<1>(whole);
  const auto power = [&](VI n) HWY_ATTR {
    return hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(n, hn::Set(di, 127))));
  };
  const VF value = hn::Mul(hn::Mul(series, power(half)), power(hn::Sub(whole, half)));
  return hn::IfThenElse(hn::IsNaN(x), x, value);
}

// tanh(x) within 3 units in the last place; NaN for NaN.
HWY_INLINE VF tanh_lanes(VF x) {
  const DF d;
  const VF size = hn::Abs(x), square = hn::Mul(x, x), one = hn::Set(d, 1.0f);
  // Near 0, 1 - 2 / (e^2x + 1) loses precision. There a polynomial approximates tanh(x) / x with an
  // error of 4e-9.
  VF series = hn::Set(d, -0.005717045f);
  series = hn::MulAdd(series, square, hn::Set(d, 0.020650586f));
  series = hn::MulAdd(series, square, hn::Set(d, -0.0537434965f));
  series = hn::MulAdd(series, square, hn::Set(d, 0.1333149076f));
  series = hn::MulAdd(series, square, hn::Set(d, -0.3333328366f));
  const VF near = hn::MulAdd(hn::Mul(x, square), series, x);
  const VF e = exp_lanes(hn::Add(size, size));
  const VF far = hn::Sub(one, hn::Div(hn::Set(d, 2.0f), hn::Add(e, one)));
  return hn::IfThenElse(hn::Lt(size, hn::Set(d, 0.625f)), near, hn::CopySign(far, x));
}

// x / (1 + e^-x). If e^-x is infinite, the quotient is -0, which is the limit.
HWY_INLINE VF silu(VF x) { return hn::Div(x, hn::Add(hn::Set(DF(), 1.0f), exp_lanes(hn::Neg(x)))); }

// cap * tanh(x / cap)
HWY_INLINE VF cap_lanes(VF x, VF cap) { return hn::Mul(cap, tanh_lanes(hn::Div(x, cap))); }

}  // namespace skald::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
