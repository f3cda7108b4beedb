// The product of parts of a tile, 16 weight rows x 128 columns each, with 1 or up to 8 activation
// rows, by one warp. Both ways add up the same numbers in the same order.
#pragma once

#include "cuda/kernels/device/mma.cuh"
#include "cuda/kernels/device/tile_pair.cuh"
#include "cuda/kernels/device/tile_rows.cuh"

namespace skald::cuda {

// What minimums are to be multiplied by besides.
template <class F, bool kHas = F::kHasMin>
inline constexpr float kMinUnit = 0;
template <class F>
inline constexpr float kMinUnit<F, true> =
    kCodeUnit / LaneScales<typename F::Scales>::kMinUnit / kSumUnit;

template <class Scales>
__device__ float times_row(float x, const Scales& scales, int half) {
  return std::is_base_of_v<NoRowScales, Scales> ? x : __fmul_rn(x, scales.row(half));
}

// Minimums by sums of activations, twice: by the sums as f16, and by what is left of them.
template <class F, class Scales>
__device__ void multiply_mins(float (&products)[4], const Scales& scales, uint32_t sums,
                              uint32_t more) {
  uint32_t mins[2];
  scales.mins(mins);
  if constexpr (F::Scales::kCols == 32) {
    mma8(Half(), products, mins[0], mins[1], sums);
  } else {
    mma(Half(), products, {mins[0], mins[1], mins[0], mins[1]}, sums, more);
  }
}

// A lane's share of the matrix products of one row: the first two columns of weight rows lane / 4
// and the eighth after it. What is not to be contracted otherwise elsewhere is written out.
template <class F>
struct OneRow {
  static constexpr int kBlocks = tiles::kPartCols / F::Scales::kCols, kPairs = kBlocks / 2;
  static constexpr int kStep = kWarps * kSlotParts<F> * kOnePartBytes;
  struct Weights {
    LaneCodesOf<F> codes;
    PairScales<typename F::Scales> scales;
    __device__ void load(const char* record, int part, int lane, int pair) {
      codes.load(record + part * F::Codes::kBytes, lane);
      scales.load(record + F::kScalesAt + part * F::Scales::kPartBytes, lane, pair);
      scales.load_rows(record + F::kRowsAt, lane);
    }
  };

  // Every column of the right side is another block of the same row, so that a lane has the two
  // blocks' products that it has the scales of; all other products go nowhere.
  const char *values, *side;  // this lane's, of the part that is next
  const char* scales;         // of the same
  int lane, pair, back;
  uint32_t odd_pair, high_pair;  // masks
  float min_unit;  // of the one lane of four that counts minimums: all have all blocks'
  uint32_t table[2];
  float totals[2] = {};

  // A warp has kSlotParts of each tile from `first_part` on.
  __device__ OneRow(const Activations& a, int first_part, int tiles)
      : lane(static_cast<int>(threadIdx.x) % 32),
        pair(lane % 4 % kPairs),
        back(tiles * kStep),
        odd_pair(pair % 2 ? ~0u : 0),
        high_pair(pair / 2 ? ~0u : 0),
        min_unit(lane % 4 == 0 ? kMinUnit<F> : 0) {
    const int block = lane / 4 % kBlocks;
    const char* first = a.one + first_part * kOnePartBytes;
    values = held_pointer(first + lane % 4 * 16 +
                          (kBlocks == 4 ? block * 64 : block / 2 * 64 + block % 2 * 8));
    side = held_pointer(first + kOneSideAt + lane % 4 * 16);
    scales = held_pointer(first + kOneScaleAt);
    if constexpr (F::kTable != tiles::Table::None) {
      table[0] = held_number(LaneCodesOf<F>::entries(0));
      table[1] = held_number(LaneCodesOf<F>::entries(8));
    }
  }
  __device__ void load(Weights& weights, const char* record, int part) const {
    weights.load(record, part, lane, pair);
    if constexpr (F::kTable != tiles::Table::None) {
      weights.codes.first_low = table[0], weights.codes.first_high = table[1];
    }
  }

  // What the i-th part of the tile is multiplied by, to be asked for before other loads are.
  struct Inputs {
    uint4 x, beside;
    float scale;
  };
  __device__ void load(Inputs& in, int i) const {
    const char* at = values + i * kOnePartBytes;
    if constexpr (kBlocks == 4) {
      in.x = load16(at);
    } else {
      const uint2 two = load8(at);
      in.x = {two.x, two.y, two.x, two.y};
    }
    if constexpr (kSumsByProduct<F> && kBlocks == 4) {
      const uint2 two = load8(side + i * kOnePartBytes);
      in.beside.x = two.x, in.scale = __uint_as_float(two.y);
    } else {
      in.beside = load16(side + i * kOnePartBytes);
      in.scale =
          __uint_as_float(kSumsByProduct<F> ? in.beside.z : load4(scales + i * kOnePartBytes));
    }
  }

  // Leaves everything as it was when not `valid`, by way of numbers that may be anything.
  __device__ void multiply(const Weights& weights, const Inputs& in, bool valid) {
    const uint4 &x = in.x, &beside = in.beside;
    const float scale = in.scale;
    // Four registers as they come, twice two numbers: from two they would be made for each product.
    float begin[4] = {};
    if constexpr (!kSumsByProduct<F>) {
      begin[0] = __uint_as_float(beside.x), begin[1] = __uint_as_float(beside.y);
      begin[2] = __uint_as_float(beside.z), begin[3] = __uint_as_float(beside.w);
    }
    float chosen[4];
    float c[tiles::kUnits][4];
#pragma unroll
    for (int m = 0; m < 2; ++m) {
#pragma unroll
      for (int unit = 0; unit < tiles::kUnits; ++unit) {
        uint32_t rows[4];
        weights.codes.pairs(unit, 0, m, rows[0], rows[2]);
        weights.codes.pairs(unit, 1, m, rows[1], rows[3]);
        if (m == 0 || kBlocks == 8) {
          mma(Half(), c[unit], rows, x.x, x.y, begin);
        } else {
          mma(Half(), c[unit], rows, x.z, x.w);
        }
      }
      if (m == 0 && kBlocks == 4) continue;
#pragma unroll
      for (int half = 0; half < 4; half += 2) {
        if constexpr (kBlocks == 4) {
          chosen[half] = either(odd_pair, c[2][half], c[0][half]);
          chosen[half + 1] = either(odd_pair, c[3][half + 1], c[1][half + 1]);
        } else {
          const float low = either(odd_pair, c[1][half + m], c[0][half + m]);
          const float high = either(odd_pair, c[3][half + m], c[2][half + m]);
          chosen[half + m] = either(high_pair, high, low);
        }
      }
    }
    float min_products[4] = {0, 0, 0, 0};
    if constexpr (kSumsByProduct<F>) {
      multiply_mins<F>(min_products, weights.scales, beside.x, beside.y);
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float first = __fmul_rn(weights.scales.scale(0, half), chosen[half * 2]);
      const float both = fmaf(weights.scales.scale(1, half), chosen[half * 2 + 1], first);
      float total = fmaf(times_row(scale, weights.scales, half), both, totals[half]);
      if constexpr (kSumsByProduct<F>) {
        const float unit = __fmul_rn(scale, min_unit);
        total = fmaf(-__fmul_rn(weights.scales.row_min(half), unit), min_products[half * 2], total);
      }
      if (valid) totals[half] = total;
    }
  }
  __device__ void next_tile() { values += kStep, side += kStep, scales += kStep; }

  // To this warp's partial sums [rows, kPartialRow].
  __device__ void leave(float* partials) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float& total = totals[half];
#pragma unroll
      for (int offset = 1; offset < kPairs; offset *= 2) {
        total += __shfl_xor_sync(~0u, total, offset);
      }
      if (lane % 4 == 0) partials[lane / 4 + half * 8] = total;
      total = 0;
    }
  }
  // To the first part again.
  __device__ void rewind() { values -= back, side -= back, scales -= back; }
};

// The same of weight rows lane / 4 and + 8 by activation rows 2 * (lane % 4) and + 1.
template <class F>
struct ManyRows {
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
      multiply_mins<F>(min_products, weights.scales, load4(sums_at), load4(sums_at + kBlocks * 2));
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float s = i % 2 ? scale.y : scale.x;
      const float factor = times_row(s, weights.scales, i / 2);
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

  __device__ void next_tile() { part += kWarps * kSlotParts<F>; }

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
