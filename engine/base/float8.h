// Bit-exact conversions of 8-bit floats.
#pragma once

#include <cstdint>

#include "engine/base/half.h"

namespace skald {

// E4M3 without infinities (OCP "FN"): 1 sign, 4 exponent bits with bias 7, 3 mantissa bits. The
// largest is 448; 0x7f and 0xff are NaN.
SKALD_HD inline bool is_e4m3_nan(uint8_t bits) { return (bits & 0x7f) == 0x7f; }
SKALD_HD inline float e4m3_to_f32(uint8_t bits) {
  const uint32_t sign = uint32_t{bits & 0x80u} << 24;
  const uint32_t exponent = bits >> 3 & 15, mantissa = bits & 7u;
  if (is_e4m3_nan(bits)) return bits_to_f32(sign | 0x7fc00000u);
  if (exponent == 0) {  // subnormal: mantissa * 2^-9
    return bits_to_f32(sign | f32_to_bits(static_cast<float>(mantissa) * 0x1p-9f));
  }
  return bits_to_f32(sign | (exponent + 120) << 23 | mantissa << 20);
}

// Round to nearest, ties to even. A number beyond 448 becomes 448. Infinity and NaN become NaN.
SKALD_HD inline uint8_t f32_to_e4m3(float value) {
  const uint32_t bits = f32_to_bits(value);
  const uint32_t sign = bits >> 24 & 0x80u, magnitude = bits & 0x7fffffffu;
  if (magnitude >= 0x7f800000u) return static_cast<uint8_t>(sign | 0x7fu);
  if (magnitude >= 0x43e00000u) return static_cast<uint8_t>(sign | 0x7eu);  // 448
  if (magnitude < 0x3c800000u) {  // below 2^-6, subnormal: adding 2^14 rounds at bit 2^-9
    const float rounded = bits_to_f32(magnitude) + 0x1p14f;
    return static_cast<uint8_t>(sign | (f32_to_bits(rounded) - 0x46800000u));
  }
  const uint32_t odd = magnitude >> 20 & 1;
  return static_cast<uint8_t>(sign | (magnitude - 0x3c000000u + 0x7ffffu + odd) >> 20);
}

// E8M0: 2^(bits - 127); 255 is NaN.
inline float e8m0_to_f32(uint8_t bits) {
  if (bits == 255) return bits_to_f32(0x7fc00000u);
  return bits_to_f32(bits == 0 ? 0x00400000u : uint32_t{bits} << 23);
}

// E2M1: 0 0.5 1 1.5 2 3 4 6, bit 3 is the sign.
SKALD_HD constexpr float e2m1_to_f32(int code) {
  constexpr uint32_t kTwice = 0xc8643210;  // twice the number, in four bits for each code
  const float number = 0.5F * static_cast<float>(kTwice >> ((code & 7) * 4) & 15);
  return code & 8 ? -number : number;
}

}  // namespace skald
