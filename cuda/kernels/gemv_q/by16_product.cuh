// Multiplies parts of a tile by one activation row, for formats whose codes are grouped by 16
// columns. After a mask, a word has four codes of one block. Each block takes two of the eight
// columns of a matrix product, so results take half the work of a product with three digits
// (digit_product.cuh).
#pragma once

#include "cuda/kernels/device/mma.cuh"
#include "cuda/kernels/gemv_q/by16_digits.cuh"
#include "cuda/kernels/gemv_q/own_scales.cuh"

namespace skald::cuda {

// A lane has the sums of weight rows lane / 4 and lane / 4 + 8, for both blocks of unit lane % 4:
// the unit's first 16 columns (m = 0) and its last 16.
template <class F>
struct By16Row {
  using Plane = typename F::Codes::Low;
  using Codes = LaneCodes<Plane>;
  using Scales = UnitScales<typename F::Scales>;
  using Factors = SumFactors<typename F::Scales>;
  static constexpr bool kLoadsAhead = true, kAsksForSet = false;
  static constexpr bool kTwoPlaces = std::is_same_v<Plane, tiles::ThreeBitsBy16>;
  static constexpr int kStep = kTileParts<F> * kDigitPartBytes;
  static_assert(F::kParts == 2 && kWarpParts<F> % 2 == 0);

  struct Weights {
    Codes codes;
    Scales scales;
    typename Scales::Rows rows;
    Factors sum_factors;
  };

  int lane;
  // Offsets in a tile of the lane's codes, scales and other numbers, for the warp's first part.
  int codes_at, second_codes_at, scales_at, rows_at, sum_factors_at;
  // The addresses of the lane's digits for the row's first part, and for a tile's first part.
  const char *base, *kept;
  uint32_t is_own[tiles::kUnits];  // 1 if the lane loads digits of this unit, else 0
  float own_unit;                  // 2^-shift, for codes that lie `shift` bits too high
  float sum_unit;                  // factor of the term that minimums or the offset subtract
  float totals[2] = {};
  int whole[2][2] = {};  // sums of both rows, for both digits: each below 2^25

  // The warp has kWarpParts parts of each tile, from `first_part` on.
  __device__ By16Row(const Activations& a, int first_part)
      : lane(static_cast<int>(threadIdx.x) % 32) {
    const auto held = [](int at) {
      return static_cast<int>(held_number(static_cast<uint32_t>(at)));
    };
    const int t = lane % 4, first_record = first_part / F::kParts * F::kRecordBytes;
    codes_at = held(first_record + lane * 16);
    if constexpr (kTwoPlaces) second_codes_at = held(first_record + Plane::kSecondAt + lane * 8);
    scales_at = held(first_record + F::kScalesAt + Scales::offset(lane));
    rows_at = held(first_record + F::kRowsAt + Scales::Rows::offset(lane));
    sum_factors_at =
        held(first_record + F::kScalesAt + t / 2 * F::Scales::kPartBytes + Factors::offset(lane));
    base = held_pointer(a.digits + first_part * kDigitPartBytes + lane * By16Part::kLaneBytes);
    kept = base;
    for (int unit = 0; unit < tiles::kUnits; ++unit) is_own[unit] = held_number(lane / 8 == unit);
    own_unit = __uint_as_float(held_number((127 - Plane::shift(t)) << 23));
    // Lanes with t = 0 have two digits of the sums, lanes with t = 1 the third.
    const float off = F::kHasMin ? -1 : -F::kOffset;
    sum_unit = __uint_as_float(held_number(__float_as_uint(t == 1 ? 65536 * off : off)));
  }
  // Begins a tile whose digits are staged `at` bytes after the digits of the row's first tile.
  __device__ void begin(int at) { kept = base + at; }

  // Loads the i-th of the warp's parts of the tile at `slot`.
  __device__ void load(Weights& weights, const char* slot, int i) const {
    slot += i / F::kParts * F::kRecordBytes;
    const int part = i % F::kParts;
    const char* codes = slot + codes_at + part * Plane::kBytes;
    if constexpr (kTwoPlaces) {
      weights.codes.load(codes, slot + second_codes_at + part * Plane::kBytes);
    } else {
      weights.codes.load(codes, 0);
    }
    weights.scales.load(slot + scales_at + part * F::Scales::kPartBytes);
    if (i % 2) {
      weights.rows.load(slot + rows_at);
      weights.sum_factors.load(slot + sum_factors_at);
    }
  }

  // The activations' digits and factors for the i-th part of a tile. These loads are issued before
  // those of the weights.
  struct Inputs {
    uint2 own;  // digits of four first and four last columns of unit lane / 8
    uint32_t sums;
    float scale;
  };
  __device__ void load(Inputs& in, int i) const {
    const char* digits = kept + i * kDigitPartBytes;
    in.own = load8(digits);
    if (i % 2) {
      in.sums = load4(digits - kDigitPartBytes + By16Part::kSumsAt);
      in.scale = __uint_as_float(load4(digits + By16Part::kScaleAt));
    }
  }

  __device__ void multiply(const Weights& weights, const Inputs& in, int i) {
    // The digits of other units must be zero here; multiplications by 0 or 1 do that. Masks or
    // selects are slower, since the loop has too many already. Loads by eight lanes each were
    // slower too: 3 % of a step in Q2_K.
    uint32_t numbers[2][tiles::kUnits];
#pragma unroll
    for (int unit = 0; unit < tiles::kUnits; ++unit) {
      numbers[0][unit] = in.own.x * is_own[unit];
      numbers[1][unit] = in.own.y * is_own[unit];
    }
#pragma unroll
    for (int m = 0; m < 2; ++m) {
      int sum[4] = {};
#pragma unroll
      for (int unit = 0; unit < tiles::kUnits; unit += 2) {
        uint32_t rows[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          const int own = unit + k / 2;
          rows[k] = weights.codes.word(own, m, k % 2) & Codes::kMask * 0x01010101u
                                                            << Plane::shift(own);
        }
        mma_bytes<false>(sum, rows, numbers[m][unit], numbers[m][unit + 1], sum);
      }
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int number = weights.scales.number(m, half);
        whole[half][0] += number * sum[half * 2];
        whole[half][1] += number * sum[half * 2 + 1];
      }
    }
    if (i % 2) end_pair(weights, in);
  }

  // Stores this warp's partial sums [16 weight rows, lane % 4]. added_up() adds up those of a row.
  __device__ void store_partials(float* partials) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      partials[lane + half * 32] = totals[half];
      totals[half] = 0;
    }
  }
  static __device__ float added_up(const float4& row) { return (row.x + row.y) + (row.z + row.w); }

 private:
  // Ends 256 columns, which share scales. Adds their sums to the totals, and subtracts the share of
  // the minimums or of the codes' offset: a product with the digits of the sums of activations.
  __device__ void end_pair(const Weights& weights, const Inputs& in) {
    constexpr bool kSigned = !F::kHasMin;
    int products[4];
    mma16_bytes<kSigned>(products, weights.sum_factors.row(0), weights.sum_factors.row(1),
                         lane < 4 * By16Part::kSumDigits ? in.sums : 0);
    const float scale = in.scale * own_unit, sum_scale = in.scale * sum_unit;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float sum =
          fmaf(static_cast<float>(whole[half][1]), 256, static_cast<float>(whole[half][0]));
      whole[half][0] = whole[half][1] = 0;
      const auto off = static_cast<float>(products[half * 2 + 1] * 256 + products[half * 2]);
      float& total = totals[half];
      if constexpr (F::kHasMin) {
        total = fmaf(weights.rows.scale(half), scale * sum, total);
        total = fmaf(weights.rows.min(half), sum_scale * off, total);
      } else {
        total = fmaf(weights.rows.scale(half), fmaf(sum_scale, off, scale * sum), total);
      }
    }
  }
};

}  // namespace skald::cuda
