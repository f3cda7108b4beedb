// The product of a part of a tile, 16 weight rows x 128 columns, with up to 8 activation rows, by
// one warp.
#pragma once

#include "cuda/kernels/device/mma.cuh"
#include "cuda/kernels/device/tile_rows.cuh"

namespace skald::cuda {

// What a lane multiplies weights with: of activation row lane / 4 its eight of every 32 columns.
// Offsets and scales are of rows 2 * (lane % 4) and the next, sums for minimums of row lane / 4.
struct LaneActivations {
  const char *values, *sums;
  int part_sums;  // bytes
  const float* scales;
  int even_rows;
};

// totals += of one part: weight rows lane / 4 and + 8 by activation rows 2 * (lane % 4) and + 1.
template <class F>
__device__ void multiply_part(float (&totals)[4], const LanePart<F>& weights, int part,
                              const LaneActivations& in) {
  constexpr int kBlocks = tiles::kPartCols / F::Scales::kCols;
  const char* values = in.values + part * (tiles::kPartCols * 2);
  const char* sums = in.sums + part * in.part_sums;
  float products[4] = {}, c[4];
#pragma unroll
  for (int unit = 0; unit < tiles::kUnits; ++unit) {
    const uint4 x = load16(values + unit * 64);
#pragma unroll
    for (int m = 0; m < 2; ++m) {
      const bool begins = m == 0 || F::Scales::kCols == 16;
      const int b = F::Scales::kCols == 16 ? unit * 2 + m : unit;
      if (begins) {
        float2 offset = {0, 0};
        if (!kSumsByProduct<F>) offset = *reinterpret_cast<const float2*>(sums + b * in.even_rows * 4);
        c[0] = c[2] = offset.x;
        c[1] = c[3] = offset.y;
      }
      uint32_t rows[4];
      weights.codes.pairs(unit, 0, m, rows[0], rows[2]);
      weights.codes.pairs(unit, 1, m, rows[1], rows[3]);
      mma(Half(), c, rows, m ? x.z : x.x, m ? x.w : x.y);
      if (m == 0 && F::Scales::kCols == 32) continue;
#pragma unroll
      for (int i = 0; i < 4; ++i) products[i] += weights.scales.scale(b, i / 2) * c[i];
    }
  }
  const float2 scales = *reinterpret_cast<const float2*>(in.scales + part * in.even_rows);
  float min_products[4] = {0, 0, 0, 0};
  if constexpr (kSumsByProduct<F>) {
    // Blocks twice: by the sums as f16, and by what is left of them.
    uint32_t mins[2];
    weights.scales.mins(mins);
    if constexpr (kBlocks == 4) {
      mma8(Half(), min_products, mins[0], mins[1], load4(sums));
    } else {
      mma(Half(), min_products, {mins[0], mins[1], mins[0], mins[1]}, load4(sums),
          load4(sums + kBlocks * 2));
    }
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    float sum = products[i];
    if constexpr (kSumsByProduct<F> && !F::kHasMin) {
      sum -= min_products[i] * (F::kOffset * kCodeUnit / kSumUnit);
    }
    sum *= weights.scales.row(i / 2);
    if constexpr (F::kHasMin) {
      constexpr float kUnit = kCodeUnit / decltype(weights.scales)::kMinUnit / kSumUnit;
      sum -= weights.scales.row_min(i / 2) * (min_products[i] * kUnit);
    }
    totals[i] += (i % 2 ? scales.y : scales.x) * sum;
  }
}

}  // namespace skald::cuda
