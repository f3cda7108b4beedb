// One activation row as gemv_q_sm90 multiplies it with codes that are bytes: whole numbers of 18
// bits and a sign, with a power of two for every 128, each as three digits of 8 bits from -128 on.
// Products of bytes and their sums are exact, so all that is rounded is the number: by 2^-19 of the
// largest of the 128.
//
// The columns of a product's right side are digits: columns 0 to 3 of one half of a part, 4 to 7 of
// the other, so that a lane gets two digits of what it has the scales of.
#pragma once

#include "cuda/kernels/device/lane_bytes.cuh"

namespace skald::cuda {

inline constexpr int kDigits = 3, kNumberBits = 18;
// A float that is a whole number from -2^22 to 2^22 larger than this one has it in its bits.
inline constexpr float kMagic = 12582912;
inline constexpr int kMagicBits = 0x4b400000;

// Where a part's numbers lie in shared memory.
template <class F>
struct DigitPart {
  static constexpr int kBlocks = tiles::kPartCols / F::Scales::kCols;
  // [half of the units, digit, lane % 4] 16 bytes: of two units what stands beside LaneBytes'
  // `first` and `second`, in 4 bytes each.
  static constexpr int kHalf = kDigits * 64;
  // 16 bytes of zeros, for the lanes whose columns are of the other half.
  static constexpr int kZerosAt = 2 * kHalf;
  static constexpr int kZeros = kBlocks == 4 ? 16 : 0;
  // For each lane % 4. Minimums are taken off by one product: 4 bytes (blocks of 16: 8) of sums of
  // the numbers times kSumUnit, as f16, next ones first, then what is left; and the scale. Else for
  // each of the lane's blocks what its two digits' sums are to be less, as floats, and the scale in
  // place of the fourth digit.
  static constexpr int kSideAt = kZerosAt + kZeros;
  static constexpr int kOwn = kBlocks / 2;  // blocks of a lane
  static constexpr int kSide = F::kHasMin ? kOwn * 4 : kOwn * 8;
  static constexpr int kBytes = kSideAt + 4 * kSide;
  static_assert(kBytes % 16 == 0);
};
inline constexpr float kNumberSumUnit = 1.0f / 1024;

// Four numbers' digits, in the order of `first` and `second`.
__device__ inline void to_digits(const uint32_t (&numbers)[4], uint32_t (&digits)[kDigits]) {
  constexpr uint32_t kZeroOfEach = 0x80808080;
  const uint32_t low = __byte_perm(numbers[0], numbers[1], 0x5140);
  const uint32_t more = __byte_perm(numbers[2], numbers[3], 0x5140);
  const uint32_t high = __byte_perm(numbers[0], numbers[1], 0x0062);
  const uint32_t higher = __byte_perm(numbers[2], numbers[3], 0x0062);
  digits[0] = __byte_perm(low, more, 0x5410) ^ kZeroOfEach;
  digits[1] = __byte_perm(low, more, 0x7632) ^ kZeroOfEach;
  digits[2] = __byte_perm(high, higher, 0x5410) ^ kZeroOfEach;
}

// A lane's eight columns of a unit, columns 4 * t and 16 further with t = lane % 4, to their place
// in a part. `bits`: of the part's largest number, whose exponent is all that counts.
template <class F>
__device__ void store_digits(char* part, bool valid, const float4 (&x)[2], unsigned bits) {
  using Part = DigitPart<F>;
  using Bytes = LaneBytesOf<F>;
  constexpr int kRatio = Bytes::kRatio;
  const int lane = static_cast<int>(threadIdx.x) % 32, unit = lane / 4 % 4, t = lane % 4;
  // 2^e <= most < 2^(e + 1) becomes 2^17: e + 127 are the upper bits. What is too small for its
  // scale to be a float is zero beside any other number.
  const int found = static_cast<int>(bits >> 23), exponent = min(max(found, 40), 254);
  const float up = __uint_as_float(static_cast<uint32_t>(254 + kNumberBits - 1 - exponent) << 23);
  float scale = __uint_as_float(static_cast<uint32_t>(exponent - kNumberBits + 1) << 23) / kRatio;
  // Infinity and NaN are found among the logits.
  if (found == 255) scale = __uint_as_float(0x7fffffff);

  int n[8];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const float four[4] = {x[i].x, x[i].y, x[i].z, x[i].w};
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      n[4 * i + k] = __float_as_int(fmaf(four[k], up, kMagic)) - kMagicBits;
    }
  }
  // Digits are bytes of numbers with half a byte's range added to each.
  constexpr int kAll = 0x808080;
  uint32_t first[4], second[4];
  constexpr int kOrder[4] = {0, F::kTable == tiles::Table::None ? 1 : 2,
                             F::kTable == tiles::Table::None ? 2 : 1, 3};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if constexpr (kRatio == 1) {
      first[i] = static_cast<uint32_t>(n[kOrder[i]] + kAll);
      second[i] = static_cast<uint32_t>(n[4 + kOrder[i]] + kAll);
    } else {
      const int low = n[i % 2 * 4 + i / 2], high = n[i % 2 * 4 + i / 2 + 2];
      first[i] = static_cast<uint32_t>(high + kAll);
      second[i] = static_cast<uint32_t>(low * kRatio + (kAll - high));
    }
  }
  uint32_t digits[2][kDigits];
  to_digits(first, digits[0]);
  to_digits(second, digits[1]);
  if (valid) {
    char* at = part + unit / 2 * Part::kHalf + t * 16 + unit % 2 * 8;
#pragma unroll
    for (int d = 0; d < kDigits; ++d) {
      *reinterpret_cast<uint2*>(at + d * 64) = {digits[0][d], digits[1][d]};
    }
    if (Part::kZeros && unit == 0) *reinterpret_cast<float*>(part + Part::kZerosAt + t * 4) = 0;
  }

  // Sums of a block's numbers, and what is made of them by one lane of each unit.
  constexpr int kSums = Part::kBlocks / tiles::kUnits;
  int sums[kSums];
#pragma unroll
  for (int i = 0; i < kSums; ++i) {
    sums[i] = (n[4 * i] + n[4 * i + 1]) + (n[4 * i + 2] + n[4 * i + 3]);
    if (kSums == 1) sums[i] += (n[4] + n[5]) + (n[6] + n[7]);
  }
#pragma unroll
  for (int offset = 1; offset < 4; offset *= 2) {
#pragma unroll
    for (int& sum : sums) sum += __shfl_xor_sync(~0u, sum, offset);
  }
  if (!valid || t != 0) return;
  char* side = part + Part::kSideAt;
  if constexpr (F::kHasMin) {
    const float of_lane = unit % 2 ? scale * 65536 : scale;
    *reinterpret_cast<float*>(side + unit * Part::kSide + kSums * 4) = of_lane;
#pragma unroll
    for (int i = 0; i < kSums; ++i) {
      const int block = unit * kSums + i;
      const float sum = static_cast<float>(sums[i]) * kNumberSumUnit;
      const __half next = __float2half_rn(sum);
      // Blocks of 32: words of lanes 0 and 1, and what is left in those of lanes 2 and 3.
      __half* at = reinterpret_cast<__half*>(side + block / 2 * Part::kSide) + block % 2;
      at[0] = next;
      at[kSums == 1 ? Part::kSide : 2] = __float2half_rn(sum - __half2float(next));
    }
  } else {
#pragma unroll
    for (int i = 0; i < kSums; ++i) {
      // Which lanes have the block, and as which of theirs.
      const int half = kSums == 1 ? unit / 2 : i, own = kSums == 1 ? unit % 2 : unit;
      const int off = F::kOffset * kRatio << Bytes::shift(0, own);
      const auto less = [&](int digit) { return __int_as_float(kMagicBits + off * digit); };
      float2* at = reinterpret_cast<float2*>(side + half * 2 * Part::kSide) + own;
      *at = {less(sums[i] & 255), less(sums[i] >> 8 & 255)};
      at[Part::kSide / 8] = {less(sums[i] >> 16), own % 2 ? scale * 65536 : scale};
    }
  }
}

}  // namespace skald::cuda
