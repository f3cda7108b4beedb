// The activation row of gemv_q_sm90 in digits, for formats whose codes are grouped by 16 columns
// (Q2_K, Q3_K). Unlike in digits.cuh, an activation becomes an integer of 15 bits and a sign, in
// two digits. The rounding error is at most 2^-15 of the largest activation in 256 columns. A bf16
// activation is exact unless it is more than 2^6 times smaller than the largest. The eight columns
// of a product's right operand are the two digits of units 0 to 3; a lane gets both digits of unit
// lane % 4.
#pragma once

#include "cuda/kernels/gemv_q/digits.cuh"

namespace skald::cuda {

template <class Codes>
inline constexpr bool kCodesBy16 = false;
template <>
inline constexpr bool kCodesBy16<tiles::Codes1<tiles::TwoBitsBy16>> = true;
template <>
inline constexpr bool kCodesBy16<tiles::Codes1<tiles::ThreeBitsBy16>> = true;
template <class F>
inline constexpr bool kBy16 = kCodesBy16<typename F::Codes>;

// The layout of a part's digits in shared memory. A lane's numbers lie at 8 * lane from each place,
// so one address register serves all places.
struct By16Part {
  // Indexed [unit, digit, lane % 4]: the digits of four of the unit's first 16 columns, and of four
  // of its last 16.
  static constexpr int kLaneBytes = 8;
  // Sums for both parts of 256 columns, stored with the first part: [digit, part, half of the
  // units], each the sums of four blocks in one byte each. Only lanes 0 to 11 have sums.
  static constexpr int kSumsAt = 256, kSumDigits = 3;
  static constexpr int kScaleAt = 260;  // the scale, once for each lane
  static_assert(kSumsAt + 32 * kLaneBytes <= kDigitPartBytes);
};

class By16DigitStore {
  int lane_ = static_cast<int>(held_number(threadIdx.x % 32));
  int unit_ = lane_ / 4 % 4, t_ = lane_ % 4;
  int digits_ = static_cast<int>(held_number((unit_ * 8 + t_) * By16Part::kLaneBytes));
  // The offset at which lanes with t = 0 to 2 store a digit of their unit's sums. Lanes 16 to 31
  // have the second part of 256 columns, whose sums are stored with the first part.
  int sums_ =
      static_cast<int>(held_number(By16Part::kSumsAt + t_ * 32 + (lane_ / 16 * 2 + unit_ / 2) * 8 +
                                   unit_ % 2 * 2 - lane_ / 16 * kDigitPartBytes));

 public:
  // See DigitStore::store().
  __device__ void store(char* part, const float4 (&x)[2], unsigned bits) const {
    // Two digits reach 32639. An integer of 15 bits exceeds that if the upper bits of its float are
    // all ones (32640 and more), or become so by rounding. Then the scale is the next power of two,
    // and the integer has one bit less.
    constexpr unsigned kUpToNext = 0x10000 + 0x200;
    constexpr int kBits = 15;
    const NumberScale scale(bits + kUpToNext, kBits);
    int n[2][4], sums[2];
    uint32_t digits[2][2];
#pragma unroll
    for (int m = 0; m < 2; ++m) {
      to_numbers(x[m], scale.up, n[m]);
      // Byte n has column n / 2 of pair n % 2, in the order of the codes (tiles/codes.h).
      const uint32_t first = __byte_perm(n[m][0] + kHalfRanges, n[m][2] + kHalfRanges, 0x5140);
      const uint32_t second = __byte_perm(n[m][1] + kHalfRanges, n[m][3] + kHalfRanges, 0x5140);
      digits[0][m] = __byte_perm(first, second, 0x5410) ^ kZeroOfEach;
      digits[1][m] = __byte_perm(first, second, 0x7632) ^ kZeroOfEach;
      sums[m] = (n[m][0] + n[m][1]) + (n[m][2] + n[m][3]);
    }
    auto* to = reinterpret_cast<uint2*>(part + digits_);  // [digit, lane % 4]
    to[0] = {digits[0][0], digits[0][1]};
    to[4] = {digits[1][0], digits[1][1]};
#pragma unroll
    for (int offset = 1; offset < 4; offset *= 2) {
#pragma unroll
      for (int& sum : sums) sum += __shfl_xor_sync(~0u, sum, offset);
    }
    if (t_ < By16Part::kSumDigits) {
      *reinterpret_cast<uint16_t*>(part + sums_) =
          static_cast<uint16_t>(digit_of(sums[0], t_) | digit_of(sums[1], t_) << 8);
    }
    char* scales = part + By16Part::kScaleAt + lane_ % 16 * By16Part::kLaneBytes;
    *reinterpret_cast<float*>(scales) = scale.down;
    *reinterpret_cast<float*>(scales + 16 * By16Part::kLaneBytes) = scale.down;
  }
};

}  // namespace skald::cuda
