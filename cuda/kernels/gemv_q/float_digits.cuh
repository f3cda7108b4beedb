// The activation row of gemv_q_sm90 for formats whose codes are floats. The codes become f16
// numbers, exactly. An activation becomes two f16 numbers whose sum has 22 bits: the nearest f16
// (digit 0), and the nearest f16 to the rest (digit 1). 256 columns have one power of two, which
// brings the largest activation near 2^15.
//
// The columns of a product's right operand are, by turns, digit 0 and digit 1 of the same
// activations, four times.
#pragma once

#include "cuda/kernels/gemv_q/digits.cuh"

namespace skald::cuda {

// The layout of a part's digits in shared memory.
struct FloatPart {
  // Indexed [unit, digit, lane % 4], 16 bytes each: four of the unit's first 16 columns, then four
  // of its last 16.
  static constexpr int kUnit = 128, kDigit = 64;
  static constexpr int kScaleAt = tiles::kUnits * kUnit;
  static_assert(kScaleAt + 4 <= kFloatPartBytes);
};

class FloatDigitStore {
  int lane_ = static_cast<int>(held_number(threadIdx.x % 32));
  int digits_ = static_cast<int>(held_number(lane_ / 4 % 4 * FloatPart::kUnit + lane_ % 4 * 16));

 public:
  // See DigitStore::store().
  __device__ void store(char* part, const float4 (&x)[2], unsigned bits) const {
    constexpr int kBits = 15;
    const NumberScale scale(bits, kBits);
    uint32_t digits[2][4];
#pragma unroll
    for (int m = 0; m < 2; ++m) {
      split(x[m].x * scale.up, x[m].y * scale.up, digits[0][2 * m], digits[1][2 * m]);
      split(x[m].z * scale.up, x[m].w * scale.up, digits[0][2 * m + 1], digits[1][2 * m + 1]);
    }
#pragma unroll
    for (int d = 0; d < 2; ++d) {
      *reinterpret_cast<uint4*>(part + digits_ + d * FloatPart::kDigit) = {
          digits[d][0], digits[d][1], digits[d][2], digits[d][3]};
    }
    *reinterpret_cast<float*>(part + FloatPart::kScaleAt) = scale.down;
  }

 private:
  __device__ static void split(float a, float b, uint32_t& near, uint32_t& rest) {
    near = pack(Half(), a, b);
    rest = pack(Half(), a - low_half(near), b - high_half(near));
  }
};

}  // namespace skald::cuda
