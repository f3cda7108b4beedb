// The activation row of gemv_q_sm90 in digits. An activation becomes an integer of 18 bits and a
// sign, with one power of two for each 256 columns. The integer is three digits, each a signed
// byte. Products of bytes and their sums are exact. Only two things are rounded: the activation, by
// at most 2^-18 of the largest of 256, and the last bit of the sums that minimums are multiplied
// by.
//
// The columns of a product's right operand are digits: columns 0 to 3 for one half of a part,
// columns 4 to 7 for the other half. So a lane gets two digits of the blocks whose scales it holds.
#pragma once

#include "cuda/kernels/gemv_q/lane_bytes.cuh"
#include "cuda/kernels/gemv_q/one_row.h"

namespace skald::cuda {

inline constexpr int kDigits = 3, kNumberBits = 18;
// kMagic plus an integer from -2^22 to 2^22 is a float whose low bits are the integer.
inline constexpr float kMagic = 12582912;
inline constexpr int kMagicBits = 0x4b400000;
// Adding this to an integer turns the three signed digits into unsigned bytes.
inline constexpr int kHalfRanges = 0x808080;

// How a format's offset or minimums are subtracted from the sums of products.
enum class TakenOff : uint8_t {
  Nothing,     // a table gives the weights themselves
  AddedOn,     // an offset: a number is added to each block's sum
  HalfMins,    // minimums in f16: a product with the sums of activations in f16
  ByteMins,    // minimums in bytes: a product with the digits of these sums
  ByteScales,  // an offset of all codes: the same product, with the blocks' scales
};
template <class S>
struct HasByteScales : std::false_type {};
template <class Block>
struct HasByteScales<tiles::ByteScales<Block>> : std::true_type {};
template <class F>
inline constexpr TakenOff kTakenOff = F::kTable != tiles::Table::None        ? TakenOff::Nothing
                                      : F::kHasMin&& F::Scales::kRecordBytes ? TakenOff::ByteMins
                                      : F::kHasMin                           ? TakenOff::HalfMins
                                      : HasByteScales<typename F::Scales>()  ? TakenOff::ByteScales
                                                                             : TakenOff::AddedOn;
template <class F>
inline constexpr bool kSumDigits =
    kTakenOff<F> == TakenOff::ByteMins || kTakenOff<F> == TakenOff::ByteScales;

// True if the blocks' scales are integers. Then the products of each digit are summed separately.
template <class F>
inline constexpr bool kWholeScales = F::Scales::kRecordBytes > 0;

// The scales that OwnScales<S> gives are multiplied by this.
template <class S>
inline constexpr float kScaleUnit = 1;
template <>
inline constexpr float kScaleUnit<tiles::ExponentScales> = 0.5f;
template <class Block, int kDivisor>
inline constexpr float kScaleUnit<tiles::ByteScales<Block, kDivisor>> = 1.0f / kDivisor;
template <class Block, int kDivisor>
inline constexpr float kScaleUnit<tiles::ByteScales32<Block, kDivisor>> = 1.0f / kDivisor;

// The layout of a part's digits in shared memory.
template <class F>
struct DigitPart {
  static constexpr int kBlocks = tiles::kPartCols / F::Scales::kCols;
  // Indexed [half of the units, digit, lane % 4], 16 bytes each: for each of two units, the digits
  // that `first` and `second` of LaneBytes are multiplied by, in 4 bytes each.
  static constexpr int kHalf = kDigits * 64;
  // 16 bytes of zeros, for lanes whose columns belong to the other half of a unit.
  static constexpr int kZerosAt = 2 * kHalf;
  static constexpr int kZeros = kBlocks == 4 ? 16 : 0;
  // AddedOn: [lane % 4, the lane's block], the number that is added to the sum of the lane's two
  // digits. HalfMins: for each lane % 4 four bytes, sums of the integers times kNumberSumUnit: the
  // nearest f16 for 0 and 1, the remainder for 2 and 3. Otherwise: for each digit eight bytes, the
  // digits of the blocks' sums and, if there are four blocks, the scale.
  static constexpr int kSideAt = kZerosAt + kZeros;
  static constexpr int kOwn = kBlocks / 2;  // blocks of a lane
  // The unit of a block's sum in digits. Three digits reach 127 * 65793. A sum of 32 integers below
  // 2^18 can exceed that, half of it cannot. Halving costs half of the last bit of one activation.
  static constexpr int kSumUnit = kBlocks == 4 ? 2 : 1;
  static constexpr bool kAdds = kTakenOff<F> == TakenOff::AddedOn;
  static constexpr int kSide = kAdds ? kOwn * 4 : kSumDigits<F> ? 8 : 4;
  static_assert(!kAdds || (kBlocks == 4 && !kWholeScales<F>));
  // The scale. Both parts of 256 columns have the same.
  static constexpr int kScaleAt = kSideAt + (kAdds            ? 4 * kSide
                                             : !kSumDigits<F> ? 16
                                             : kBlocks == 4   ? 4
                                                              : kDigits * 8);
  static_assert(kScaleAt + 4 <= kDigitPartBytes);
};
inline constexpr float kNumberSumUnit = 1.0f / 1024;

// The factors that turn floats into integers of number_bits bits (`up`) and back (`down`). `bits`
// is the bits of the largest float; its highest bit becomes the integers' highest bit.
struct NumberScale {
  float up, down;
  __device__ NumberScale(unsigned bits, int number_bits) {
    // If 2^e <= most < 2^(e + 1), the upper bits of `most` are e + 127. Powers below 2^-87 are
    // taken as 2^-87, so that both factors are floats. Activations that small are zero beside any
    // other.
    const int found = static_cast<int>(bits >> 23), exponent = min(max(found, 40), 254);
    up = __int_as_float((254 + number_bits - 1 - exponent) * (1 << 23));
    down = __int_as_float((exponent - number_bits + 1) * (1 << 23));
    // NaN makes infinity and NaN visible in the logits, which are checked.
    if (found >= 255) down = __int_as_float(0x7fffffff);
  }
};
__device__ inline void to_numbers(const float4& x, float up, int (&n)[4]) {
  const float four[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) n[i] = __float_as_int(fmaf(four[i], up, kMagic)) - kMagicBits;
}

inline constexpr uint32_t kZeroOfEach = 0x80808080;
// Digit i of an integer, as a byte.
__device__ inline uint32_t digit_of(int number, int i) {
  return ((static_cast<uint32_t>(number + kHalfRanges) ^ kHalfRanges) >> (i * 8)) & 255;
}
// The digits of four integers, in the order of `first` and `second`.
__device__ inline void to_digits(const uint32_t (&numbers)[4], uint32_t (&digits)[kDigits]) {
  const uint32_t low = __byte_perm(numbers[0], numbers[1], 0x5140);
  const uint32_t more = __byte_perm(numbers[2], numbers[3], 0x5140);
  const uint32_t high = __byte_perm(numbers[0], numbers[1], 0x0062);
  const uint32_t higher = __byte_perm(numbers[2], numbers[3], 0x0062);
  digits[0] = __byte_perm(low, more, 0x5410) ^ kZeroOfEach;
  digits[1] = __byte_perm(low, more, 0x7632) ^ kZeroOfEach;
  digits[2] = __byte_perm(high, higher, 0x5410) ^ kZeroOfEach;
}

// Turns a lane's eight columns of a unit into digits and stores them. With t = lane % 4 these are
// four columns from 4 * t on, and the four columns 16 further. There is no branch: every product
// waits for this code before its first tile.
template <class F>
class DigitStore {
  using Part = DigitPart<F>;
  using Bytes = LaneBytesOf<F>;
  static constexpr int kRatio = Bytes::kRatio;
  static constexpr int kSums = Part::kBlocks / tiles::kUnits;  // sums of a unit

  // Kept in registers: the compiler would compute them again and again.
  int lane_ = static_cast<int>(held_number(threadIdx.x % 32));
  int unit_ = lane_ / 4 % 4, t_ = lane_ % 4;
  int digits_ = static_cast<int>(held_number(unit_ / 2 * Part::kHalf + t_ * 16 + unit_ % 2 * 8));
  // AddedOn: where the lane stores its number.
  int added_ = static_cast<int>(
      held_number(Part::kSideAt + (unit_ / 2 * 2 + t_ % 2) * Part::kSide + unit_ % 2 * 4));

 public:
  // Stores a lane's eight activations of a part: x[0] begins at column 4 * t, x[1] 16 columns
  // further. `bits` are the bits of a float that no activation of the part exceeds; its power of
  // two becomes the part's.
  __device__ void store(char* part, const float4 (&x)[2], unsigned bits) const {
    const NumberScale numbers(bits, kNumberBits);
    const float scale =
        numbers.down * (kScaleUnit<typename F::Scales> / (kRatio << Planes<F>::kUp));
    int n[2][4];
    to_numbers(x[0], numbers.up, n[0]);
    to_numbers(x[1], numbers.up, n[1]);
    store_digits(part + digits_, n);
    if (Part::kZeros && unit_ == 0) *reinterpret_cast<float*>(part + Part::kZerosAt + t_ * 4) = 0;
    if constexpr (kSumDigits<F> && kSums == 1) {
      if (t_ < kDigits) *reinterpret_cast<float*>(part + Part::kScaleAt + t_ * Part::kSide) = scale;
    } else {
      *reinterpret_cast<float*>(part + Part::kScaleAt) = scale;
    }
    if constexpr (kTakenOff<F> != TakenOff::Nothing) store_sums(part, n);
  }

 private:
  __device__ static void store_digits(char* at, const int (&n)[2][4]) {
    constexpr bool kTable = F::kTable != tiles::Table::None;
    constexpr int kOrder[4] = {0, kTable ? 2 : 1, kTable ? 1 : 2, 3};
    uint32_t first[4], second[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if constexpr (kRatio == 1) {
        first[i] = static_cast<uint32_t>(n[0][kOrder[i]] + kHalfRanges);
        second[i] = static_cast<uint32_t>(n[1][kOrder[i]] + kHalfRanges);
      } else {
        const int low = n[i % 2][i / 2], high = n[i % 2][i / 2 + 2];
        first[i] = static_cast<uint32_t>(high + kHalfRanges);
        second[i] = static_cast<uint32_t>(low * kRatio + (kHalfRanges - high));
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
  __device__ void store_sums(char* part, const int (&n)[2][4]) const {
    int sums[kSums];
#pragma unroll
    for (int i = 0; i < kSums; ++i) {
      sums[i] = (n[i][0] + n[i][1]) + (n[i][2] + n[i][3]);
      if (kSums == 1) sums[i] += (n[1][0] + n[1][1]) + (n[1][2] + n[1][3]);
    }
#pragma unroll
    for (int offset = 1; offset < 4; offset *= 2) {
#pragma unroll
      for (int& sum : sums) sum += __shfl_xor_sync(~0u, sum, offset);
    }
    if constexpr (Part::kAdds) {
      store_added(part, sums[0]);
    } else if constexpr (kSumDigits<F>) {
      store_sum_digits(part + Part::kSideAt, sums);
    } else {
      store_half_sum(part + Part::kSideAt, sums[0]);
    }
  }
  // The lanes with t = 0, 1 and 2 store one digit each.
  __device__ void store_sum_digits(char* side, const int (&sums)[kSums]) const {
    uint32_t bytes[kSums];
#pragma unroll
    for (int i = 0; i < kSums; ++i) {
      const int sum = (sums[i] + Part::kSumUnit - 1) >> (Part::kSumUnit - 1);
      bytes[i] = digit_of(sum, t_);
    }
    char* at = side + t_ * Part::kSide + unit_ * kSums;
    if (t_ == kDigits) return;
    if constexpr (kSums == 1) {
      *reinterpret_cast<uint8_t*>(at) = static_cast<uint8_t>(bytes[0]);
    } else {
      *reinterpret_cast<uint16_t*>(at) = static_cast<uint16_t>(bytes[0] | bytes[kSums - 1] << 8);
    }
  }
  // The lane with t = 0 stores the nearest f16, the lane with t = 1 the remainder.
  __device__ void store_half_sum(char* side, int numbers) const {
    const float sum = static_cast<float>(numbers) * kNumberSumUnit;
    const __half next = __float2half_rn(sum), rest = __float2half_rn(sum - __half2float(next));
    // Words 0 and 1 have the nearest f16, words 2 and 3 the remainder.
    const int at = (unit_ / 2 + t_ * 2) * Part::kSide + unit_ % 2 * 2;
    if (t_ < 2) *reinterpret_cast<__half*>(side + at) = t_ ? rest : next;
  }
  // The lane with t = 0 stores the number for the lower two digits, the lane with t = 1 the number
  // for the highest digit.
  __device__ void store_added(char* part, int sum) const {
    constexpr int kOff = F::kOffset * kRatio;
    store_if(t_ < 2, part + added_, -kOff * (t_ % 2 ? sum >> 16 : sum & 0xffff));
  }
};

}  // namespace skald::cuda
