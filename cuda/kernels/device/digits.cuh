// One activation row as gemv_q_sm90 multiplies it with codes that are bytes: whole numbers of 18
// bits and a sign, with a power of two for every 256, each as three digits of 8 bits from -128 on.
// Products of bytes and their sums are exact, so all that is rounded is the number: by 2^-18 of the
// largest of the 256 at most.
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
  // the numbers times kNumberSumUnit, as f16, next ones first, then what is left; and the scale.
  // Else for each of the lane's blocks what its two digits' sums are to be less, as floats, and the
  // scale in place of the fourth digit.
  static constexpr int kSideAt = kZerosAt + kZeros;
  static constexpr int kOwn = kBlocks / 2;  // blocks of a lane
  static constexpr int kSide = F::kHasMin ? kOwn * 4 : kOwn * 8;
  // As many as 128 floats have, which lie there before they become digits.
  static constexpr int kBytes = 512;
  static_assert(kSideAt + 4 * kSide <= kBytes);
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

// Makes digits of a lane's eight columns of a unit, columns 4 * t and 16 further with t = lane % 4,
// and stores them, without a branch: what it takes is a large part of what a product waits for.
template <class F>
class DigitStore {
  using Part = DigitPart<F>;
  using Bytes = LaneBytesOf<F>;
  static constexpr int kRatio = Bytes::kRatio;
  static constexpr int kSums = Part::kBlocks / tiles::kUnits;  // of a unit
  static constexpr int kAll = 0x808080;  // makes digits bytes: half a byte's range for each

  // Held, or the compiler finds them again and again.
  int lane_ = static_cast<int>(held_number(threadIdx.x % 32));
  int unit_ = lane_ / 4 % 4, t_ = lane_ % 4;
  int digits_ = static_cast<int>(held_number(unit_ / 2 * Part::kHalf + t_ * 16 + unit_ % 2 * 8));
  // Of the lane that stores it, a sum's place: which lanes have its block, and as which of theirs.
  int block_half_ = kSums == 1 ? unit_ / 2 : t_ / 2, own_ = kSums == 1 ? unit_ % 2 : unit_;
  int less_ = static_cast<int>(
      held_number(Part::kSideAt + (block_half_ * 2 + t_ % 2) * Part::kSide + own_ * 8));
  int off_ = F::kOffset * kRatio << Bytes::shift(0, own_);
  float odd_ = (F::kHasMin ? unit_ % 2 : own_ % 2) ? 65536.0f : 1.0f;

 public:
  // Part of x[0], columns 4 * t, and x[1]. `bits`: of a number in whose power of two the part is to
  // be, no smaller than any of its own.
  __device__ void store(char* part, const float4 (&x)[2], unsigned bits) const {
    // 2^e <= most < 2^(e + 1) becomes 2^17: e + 127 are the upper bits. What is too small for its
    // scale to be a float is zero beside any other number.
    const int found = static_cast<int>(bits >> 23), exponent = min(max(found, 40), 254);
    const float up = __int_as_float((254 + kNumberBits - 1 - exponent) * (1 << 23));
    float scale = __int_as_float((exponent - kNumberBits + 1) * (1 << 23)) * (odd_ / kRatio);
    // Infinity and NaN are found among the logits.
    if (found == 255) scale = __int_as_float(0x7fffffff);
    int n[8];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float four[4] = {x[i].x, x[i].y, x[i].z, x[i].w};
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        n[4 * i + k] = __float_as_int(fmaf(four[k], up, kMagic)) - kMagicBits;
      }
    }
    store_digits(part + digits_, n);
    if (Part::kZeros && unit_ == 0) *reinterpret_cast<float*>(part + Part::kZerosAt + t_ * 4) = 0;

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
    const int sum = kSums == 2 && t_ / 2 ? sums[kSums - 1] : sums[0];
    F::kHasMin ? store_sum(part + Part::kSideAt, sum, scale) : store_less(part, sum, scale);
  }

 private:
  __device__ static void store_digits(char* at, const int (&n)[8]) {
    constexpr bool kTable = F::kTable != tiles::Table::None;
    constexpr int kOrder[4] = {0, kTable ? 2 : 1, kTable ? 1 : 2, 3};
    uint32_t first[4], second[4];
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
#pragma unroll
    for (int d = 0; d < kDigits; ++d) {
      *reinterpret_cast<uint2*>(at + d * 64) = {digits[0][d], digits[1][d]};
    }
  }
  // Lanes with t of 0 and 1 store next and rest, those with t of 2 and 3 the same of the next block
  // where a unit has two.
  __device__ void store_sum(char* side, int numbers, float scale) const {
    const float sum = static_cast<float>(numbers) * kNumberSumUnit;
    const __half next = __float2half_rn(sum), rest = __float2half_rn(sum - __half2float(next));
    const __half of_lane = t_ % 2 ? rest : next;
    // Blocks of 32: words of lanes 0 and 1, and what is left in those of lanes 2 and 3.
    const int at = kSums == 1 ? (unit_ / 2 + t_ % 2 * 2) * Part::kSide + unit_ % 2 * 2
                              : unit_ * Part::kSide + t_ % 2 * 4 + t_ / 2 * 2;
    if (kSums == 2 || t_ < 2) *reinterpret_cast<__half*>(side + at) = of_lane;
    if (t_ == 3) *reinterpret_cast<float*>(side + unit_ * Part::kSide + kSums * 4) = scale;
  }
  // Lanes with an odd t store the highest digit and the scale.
  __device__ void store_less(char* part, int sum, float scale) const {
    const auto less = [&](int digit) { return __int_as_float(kMagicBits + off_ * digit); };
    const float first = less(t_ % 2 ? sum >> 16 : sum & 255);
    const float second = t_ % 2 ? scale : less(sum >> 8 & 255);
    store_if(kSums == 2 || t_ < 2, part + less_, first, second);
  }
};

}  // namespace skald::cuda
