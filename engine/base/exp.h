// e^x for probabilities, with the same bits on every CPU, library and GPU. libm's exp does not
// promise that. Compilers can vectorize loops over this function.
#pragma once

#include <cstdint>

#include "engine/base/half.h"

namespace skald {

// A product that the device compiler may not fuse with a following addition. (Host code is compiled
// with -ffp-contract=off.)
SKALD_HD inline float unfused_product(float a, float b) {
#ifdef __CUDA_ARCH__
  return __fmul_rn(a, b);
#else
  return a * b;
#endif
}

// Expects x <= 0 and not NaN. The relative error is below 1.5e-7. The result is exactly 1 at 0, and
// exactly 0 below -87, where float's normal numbers end.
SKALD_HD inline float exp_nonpositive(float x) {
  // e^x = 2^k * e^r with |r| <= ln(2)/2. Adding 1.5 * 2^23 rounds to an integer, which then lies in
  // the low bits of the sum.
  constexpr float kRound = 12582912.0f;
  const float sum = unfused_product(x, 1.44269504f) + kRound;
  const float k = sum - kRound;
  // ln(2) in two parts. The first part has so few bits that k times it is exact.
  const float r = (x - unfused_product(k, 0.693359375f)) - unfused_product(k, -2.12194440e-4f);
  float series = 1.0f / 5040;  // Taylor series of e^r; the first omitted term is below 6e-9
  series = unfused_product(series, r) + 1.0f / 720;
  series = unfused_product(series, r) + 1.0f / 120;
  series = unfused_product(series, r) + 1.0f / 24;
  series = unfused_product(series, r) + 1.0f / 6;
  series = unfused_product(series, r) + 0.5f;
  series = unfused_product(series, r) + 1.0f;
  series = unfused_product(series, r) + 1.0f;
  const uint32_t bits = f32_to_bits(series) + (f32_to_bits(sum) << 23);
  const uint32_t keep = 0u - static_cast<uint32_t>(x >= -87.0f);  // a branch would not vectorize
  return bits_to_f32(bits & keep);
}

}  // namespace skald
