// A lane's weights of a part as plain 16-bit numbers, on any GPU.
#pragma once

#include "cuda/kernels/tiles/lane_mins.cuh"

namespace skald::cuda {

// Like pack() of mma.cuh, which needs sm_80.
__device__ inline uint32_t two(Half, float low, float high) {
  const __half2 both = __floats2half2_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&both);
}
__device__ inline uint32_t two(Bf16, float low, float high) {
  return uint32_t{__bfloat16_as_ushort(__float2bfloat16_rn(low))} |
         uint32_t{__bfloat16_as_ushort(__float2bfloat16_rn(high))} << 16;
}

// A lane's weights of a part in float32, computed with decode()'s operations in its order.
template <class F>
struct LaneNumbers {
  LanePart<F> part;
  struct NoMins {};
  std::conditional_t<F::kHasMin, LaneMins<typename F::Scales>, NoMins> mins;

  __device__ void load(const char* record, int i, int lane) {
    part.load(record, i, lane);
    if constexpr (F::kHasMin) {
      mins.load(record + F::kScalesAt + i * F::Scales::kPartBytes, lane);
    }
  }

  // The weights of columns 16 * m + 4 * (lane % 4) and the next three of a unit, in row lane / 4 +
  // 8 * half.
  template <class T>
  __device__ uint2 four(T, int unit, int half, int m) const {
    const int b = F::Scales::kCols == 16 ? unit * 2 + m : unit;
    if constexpr (F::kFloats) {
      __half2 pairs[2];
      part.codes.raw(unit, half, m, pairs);
      const float2 near = __half22float2(pairs[0]), far = __half22float2(pairs[1]);
      // A power of two more or less does not change what is rounded.
      const float exact = part.scales.exact(b, half) * kNumberUnit<F>;
      return {two(T(), __fmul_rn(exact, near.x), __fmul_rn(exact, near.y)),
              two(T(), __fmul_rn(exact, far.x), __fmul_rn(exact, far.y))};
    } else {
      return of_integers(T(), unit, half, m, b);
    }
  }

 private:
  template <class T>
  __device__ uint2 of_integers(T, int unit, int half, int m, int b) const {
    const float scale = __fmul_rn(part.scales.row(half), part.scales.scale(b, half));
    float less = 0;
    if constexpr (F::kHasMin) less = __fmul_rn(part.scales.row_min(half), mins.min(b, half));
    uint32_t pairs[2];
    part.codes.pairs(unit, half, m, pairs[0], pairs[1]);
    const auto number = [&](uint32_t code, int p) {
      const int number = static_cast<int>(p ? code / F::Codes::kOddScale : code) - F::kOffset;
      const float weight = __fmul_rn(scale, static_cast<float>(number));
      return F::kHasMin ? __fsub_rn(weight, less) : weight;
    };
    return {two(T(), number(pairs[0] & 0xffff, 0), number(pairs[0] >> 16, 0)),
            two(T(), number(pairs[1] & 0xffff, 1), number(pairs[1] >> 16, 1))};
  }
};

}  // namespace skald::cuda
