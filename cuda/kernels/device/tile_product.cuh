// The product of parts of a tile, 16 weight rows x 128 columns each, with 2 to 8 activation rows,
// by one warp: codes as f16 numbers.
#pragma once

#include "cuda/kernels/device/mma.cuh"
#include "cuda/kernels/device/tile_rows.cuh"

namespace skald::cuda {

// What minimums are to be multiplied by besides.
template <class F, bool kHas = F::kHasMin>
inline constexpr float kMinUnit = 0;
template <class F>
inline constexpr float kMinUnit<F, true> =
    kCodeUnit / LaneScales<typename F::Scales>::kMinUnit / kSumUnit;

// Weight rows lane / 4 and + 8 by activation rows 2 * (lane % 4) and + 1.
template <class F>
struct ManyRows {
  static constexpr bool kOne = false;
  static constexpr int kBlocks = tiles::kPartCols / F::Scales::kCols, kPairs = kBlocks / 2;
  using Weights = LanePart<F>;

  // Values and sums for minimums are of activation row lane / 4.
  const char *values, *sums;
  const float* scales;
  int lane, rows, stride, first, part_sums, first_part, part;
  float totals[kPairs][4] = {};

  __device__ ManyRows(const Activations& a, int first_part, int)
      : lane(static_cast<int>(threadIdx.x) % 32),
        rows(a.rows),
        stride(row_stride(a.rows)),
        first(lane % 4 * 2),
        first_part(first_part),
        part(first_part) {
    // Lanes without a row of their own take the last one's: their results go nowhere.
    const int row = min(lane / 4, rows - 1), two = min(first, stride - 2);
    values = reinterpret_cast<const char*>(a.values + row * a.row_stride) + lane % 4 * 16;
    sums = a.sums + (kSumsByProduct<F> ? row * (kBlocks * 4) + lane % 4 * 4 : two * 4);
    part_sums = kBlocks * 4 * (kSumsByProduct<F> ? rows : stride);
    scales = a.scales + two;
  }
  __device__ void load(Weights& weights, const char* record, int part) const {
    weights.load(record, part, lane);
  }

  struct Inputs {
    int i;
  };
  __device__ void load(Inputs& in, int i) const { in.i = i; }

  __device__ void multiply(const Weights& weights, const Inputs& in, bool valid) {
    const int i = in.i;
    const char* at = values + (part + i) * (tiles::kPartCols * 2);
    const char* sums_at = sums + (part + i) * part_sums;
    const float2 scale = *reinterpret_cast<const float2*>(scales + (part + i) * stride);
    float products[kPairs][4], c[4];
#pragma unroll
    for (int unit = 0; unit < tiles::kUnits; ++unit) {
      const uint4 x = load16(at + unit * 64);
#pragma unroll
      for (int m = 0; m < 2; ++m) {
        const int b = kBlocks == 4 ? unit : unit * 2 + m;
        if (m == 0 || kBlocks == 8) {
          float2 begin = {0, 0};
          if constexpr (!kSumsByProduct<F>) {
            begin = *reinterpret_cast<const float2*>(sums_at + b * stride * 4);
          }
          c[0] = c[2] = begin.x, c[1] = c[3] = begin.y;
        }
        uint32_t rows[4];
        weights.codes.pairs(unit, 0, m, rows[0], rows[2]);
        weights.codes.pairs(unit, 1, m, rows[1], rows[3]);
        mma(Half(), c, rows, m ? x.z : x.x, m ? x.w : x.y);
        if (m == 0 && kBlocks == 4) continue;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const float s = weights.scales.scale(b, i / 2);
          products[b / 2][i] = b % 2 ? fmaf(s, c[i], products[b / 2][i]) : __fmul_rn(s, c[i]);
        }
      }
    }
    float min_products[4] = {0, 0, 0, 0};
    if constexpr (kSumsByProduct<F>) {
      uint32_t mins[2];
      weights.scales.mins(mins);
      if constexpr (kBlocks == 4) {
        mma8(Half(), min_products, mins[0], mins[1], load4(sums_at));
      } else {
        mma(Half(), min_products, {mins[0], mins[1], mins[0], mins[1]}, load4(sums_at),
            load4(sums_at + kBlocks * 2));
      }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float s = i % 2 ? scale.y : scale.x;
      const float factor = s * weights.scales.row(i / 2);
#pragma unroll
      for (int pair = 0; pair < kPairs; ++pair) {
        const float total = fmaf(factor, products[pair][i], totals[pair][i]);
        if (valid) totals[pair][i] = total;
      }
      if constexpr (kSumsByProduct<F>) {
        const float total =
            fmaf(-__fmul_rn(weights.scales.row_min(i / 2), __fmul_rn(s, kMinUnit<F>)),
                 min_products[i], totals[0][i]);
        if (valid) totals[0][i] = total;
      }
    }
  }

  __device__ void next_tile() { part += kTileParts<F>; }

  __device__ void rewind() { part = first_part; }
  __device__ void leave(float* partials) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float total = totals[0][i] + totals[1][i];
      if (kPairs == 4) total += totals[2][i] + totals[3][i];
      if (first + i % 2 < rows) {
        partials[(first + i % 2) * kPartialRow + lane / 4 + i / 2 * 8] = total;
      }
#pragma unroll
      for (int pair = 0; pair < kPairs; ++pair) totals[pair][i] = 0;
    }
  }
};

}  // namespace skald::cuda
