// Bit-exact conversions of 16-bit floats, on the host and on the device, without hardware support.
// Faster conversions are tested against these.
#pragma once

#include <bit>
#include <cstdint>

#ifdef __CUDACC__
#define SKALD_HD __host__ __device__
#else
#define SKALD_HD
#endif

namespace skald {

SKALD_HD inline float bits_to_f32(uint32_t bits) {
#ifdef __CUDA_ARCH__
  return __uint_as_float(bits);
#else
  return std::bit_cast<float>(bits);
#endif
}

SKALD_HD inline uint32_t f32_to_bits(float value) {
#ifdef __CUDA_ARCH__
  return __float_as_uint(value);
#else
  return std::bit_cast<uint32_t>(value);
#endif
}

SKALD_HD inline float bf16_to_f32(uint16_t bits) { return bits_to_f32(uint32_t{bits} << 16); }

SKALD_HD inline float f16_to_f32(uint16_t bits) {
  const uint32_t sign = uint32_t{bits & 0x8000u} << 16;
  const uint32_t exponent = (bits >> 10) & 31;
  const uint32_t mantissa = bits & 0x3ffu;
  if (exponent == 31) return bits_to_f32(sign | 0x7f800000u | (mantissa << 13));
  if (exponent == 0) {  // subnormal: mantissa * 2^-24, exact in float32
    const float magnitude = static_cast<float>(mantissa) * 5.9604644775390625e-8f;
    return bits_to_f32(sign | f32_to_bits(magnitude));
  }
  return bits_to_f32(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

// Round to nearest, ties to even; overflow becomes infinity; NaN stays NaN.
SKALD_HD inline uint16_t f32_to_f16(float value) {
  const uint32_t bits = f32_to_bits(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);
  if (magnitude < 0x38800000u) {  // subnormal in f16: adding 0.5 rounds at bit 2^-24
    const float rounded = bits_to_f32(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (f32_to_bits(rounded) - 0x3f000000u));
  }
  const uint32_t odd = (magnitude >> 13) & 1;
  return static_cast<uint16_t>(sign | ((magnitude - 0x38000000u + 0xfffu + odd) >> 13));
}

SKALD_HD inline uint16_t f32_to_bf16(float value) {
  const uint32_t bits = f32_to_bits(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1)) >> 16);
}

}  // namespace skald
