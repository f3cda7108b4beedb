// Activation rows as gemv_q_sm90 multiplies them with tiles: f16 with a power of two for every 128,
// and their sums, brought into shared memory by all consumer warps of a block together.
#pragma once

#include "cuda/kernels/device/launch.cuh"
#include "cuda/kernels/device/math.cuh"
#include "cuda/kernels/device/mma.cuh"
#include "cuda/kernels/device/tile_lane.cuh"
#include "cuda/kernels/linear.h"

namespace skald::cuda {

inline constexpr int kMostRows = 8;
inline constexpr int kWarps = 8;  // consumers
SKALD_HD constexpr int even_rows(int rows) { return (rows + 1) / 2 * 2; }

// What a warp has of a tile: adjacent parts. Two where they are small, so that what has to be done
// for a tile besides is done for twice as much; one where a ring would have few tiles.
template <class F>
inline constexpr int kSlotParts = F::kRecordBytes / F::kParts > 1500 ? 1 : 2;

// What is taken off for an offset of codes, or a minimum, is a product of numbers that are f16 and
// sums of activations, by one matrix instruction a part; else it is where a block's sum begins.
template <class F>
constexpr bool kSumsByProduct = requires(LaneScales<typename F::Scales> s, uint32_t (&rows)[2]) {
  s.mins(rows);
};
inline constexpr float kSumUnit = 1.0f / 64;

// Rows in shared memory. A row starts 64 bytes further than a multiple of 128, so that two rows'
// reads fall into different banks.
struct Activations {
  int rows, parts;  // of the step; of a row
  // [rows, activation_row]; of every 32, first the eight that lane l % 4 = 0 of a group multiplies.
  __half* values;
  int row_stride;
  float* scales;  // [parts, even_rows]: what a part's sums are to be multiplied by
  // Of the values of each block of kCols columns. kSumsByProduct: f16 [parts, rows, 2 * blocks of a
  // part], times kSumUnit, first the f16 next to each, then what is left. Else float [blocks,
  // even_rows], times what is to be taken off for the offset of codes.
  char* sums;
  float (*squares)[kWarps];  // of what comes to be normalized
};

__device__ inline float4 load_four(const float* row, int at) {
  return __ldcg(reinterpret_cast<const float4*>(row) + at);
}
template <class T>
__device__ float4 load_four(const T* row, int at) {
  const uint2 bits = __ldcg(reinterpret_cast<const uint2*>(row) + at);
  const T* four = reinterpret_cast<const T*>(&bits);
  return {to_float(four[0]), to_float(four[1]), to_float(four[2]), to_float(four[3])};
}
__device__ inline float squares(float4 x) { return x.x * x.x + x.y * x.y + x.z * x.z + x.w * x.w; }

// Two parts of a row, which the warp that brings them will multiply. A lane has the eight of every
// 32 columns that it or its like multiplies.
struct Item {
  int row, turn;
  bool valid;
  // The part of the warp's upper or lower lanes.
  template <class F>
  __device__ int part() const {
    const int warp = static_cast<int>(threadIdx.x) / 32, half = static_cast<int>(threadIdx.x) / 16 % 2;
    return kSlotParts<F> == 1 ? (turn * 2 + half) * kWarps + warp : (turn * kWarps + warp) * 2 + half;
  }
};
struct LaneEight {
  float4 x[2];  // columns 4 * (lane % 4) and 16 further
};

// The items as f16 and a power of two for each part.
template <class F, int kItems>
__device__ void store_items(const Activations& to, const Item (&items)[kItems],
                            const LaneEight* eights) {
  const int lane = static_cast<int>(threadIdx.x) % 32, unit = lane / 4;
  constexpr float kOdd = F::Codes::kOddScale;
  constexpr int kBlocks = tiles::kPartCols / F::Scales::kCols, kSums = kBlocks / tiles::kUnits;
  int exponents[kItems];
  float sums[kItems][kSums];
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    float most = 0;
#pragma unroll
    for (const float4& x : eights[i].x) {
      most = fmaxf(most, fmaxf(fmaxf(fabsf(x.x), fabsf(x.y)), fmaxf(fabsf(x.z), fabsf(x.w))));
    }
    // Floats that are not negative are in the order of their bits.
    const unsigned bits = __float_as_uint(most);
    const unsigned first = __reduce_max_sync(~0u, lane < 16 ? bits : 0);
    const unsigned second = __reduce_max_sync(~0u, lane < 16 ? 0 : bits);
    exponents[i] = static_cast<int>((lane < 16 ? first : second) >> 23);
  }
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    // 2^e <= most < 2^(e + 1) becomes 2^14: e + 127 are the upper bits. What is too small for a
    // power's inverse to be a float is zero beside any other number. Infinity and NaN stay what
    // they are and are found among the logits.
    exponents[i] = min(max(exponents[i], 14 + 2), 254);
    const float up = __uint_as_float(static_cast<uint32_t>(254 + 14 - exponents[i]) << 23);
    uint32_t pairs[4];
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      const float4& x = eights[i].x[n];
      pairs[2 * n] = pack(Half(), x.x * up, x.y * up);
      pairs[2 * n + 1] = pack(Half(), x.z * (up / kOdd), x.w * (up / kOdd));
      const float sum = (low_half(pairs[2 * n]) + high_half(pairs[2 * n])) +
                        (low_half(pairs[2 * n + 1]) + high_half(pairs[2 * n + 1])) * kOdd;
      if (n < kSums) {
        sums[i][n] = sum;
      } else {
        sums[i][0] += sum;
      }
    }
    const int part = items[i].template part<F>();
    if (items[i].valid && part < to.parts) {
      *reinterpret_cast<uint4*>(to.values + items[i].row * to.row_stride + part * tiles::kPartCols +
                                lane % 16 * 8) = {pairs[0], pairs[1], pairs[2], pairs[3]};
    }
  }
#pragma unroll
  for (int offset = 1; offset < 4; offset *= 2) {
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
#pragma unroll
      for (float& sum : sums[i]) sum += __shfl_xor_sync(~0u, sum, offset);
    }
  }
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    const int row = items[i].row, part = items[i].template part<F>();
    if (!items[i].valid || lane % 4 != 0 || part >= to.parts) continue;
#pragma unroll
    for (int n = 0; n < kSums; ++n) {
      const int block = unit % 4 * kSums + n;
      if constexpr (kSumsByProduct<F>) {
        __half* at =
            reinterpret_cast<__half*>(to.sums) + (part * to.rows + row) * (2 * kBlocks) + block;
        const __half next = __float2half_rn(sums[i][n] * kSumUnit);
        at[0] = next;
        at[kBlocks] = __float2half_rn(sums[i][n] * kSumUnit - __half2float(next));
      } else {
        reinterpret_cast<float*>(to.sums)[(part * kBlocks + block) * even_rows(to.rows) + row] =
            sums[i][n] * (-F::kOffset * kCodeUnit);
      }
    }
    if (unit % 4 == 0) {
      to.scales[part * even_rows(to.rows) + row] =
          __uint_as_float(static_cast<uint32_t>(exponents[i] - 14) << 23) * (1 / kCodeUnit);
    }
  }
}

// Brings a warp's columns of the rows into shared memory, where no other warp reads them. To be
// normalized they are multiplied by the weights alone; the finisher multiplies by what all have in
// common.
template <class F, class T, bool kNormed>
struct Stage {
  static constexpr int kTogether = 2;
  using In = std::conditional_t<kNormed, float, T>;
  const LinearLaunch& a;
  const Activations& to;
  int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  int fours = static_cast<int>(a.ins / 4);
  int turns = (to.parts + 2 * kWarps - 1) / (2 * kWarps), items = a.rows * turns;

  struct Place {
    int row = 0, turn = 0;
    __device__ void next(int turns) {
      if (++turn == turns) turn = 0, ++row;
    }
  };
  struct Batch {
    Item of[kTogether];
    LaneEight eights[kTogether];
  };

  __device__ int four_of(const Item& item) const {
    return item.template part<F>() * (tiles::kPartCols / 4) + lane % 16 / 4 * 8 + lane % 4;
  }
  __device__ void load_weights(LaneEight& weights, int turn) const {
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      const int at = four_of({0, turn, true}) + 4 * n;
      weights.x[n] = {};
      if (at < fours) {
        weights.x[n] = __ldg(reinterpret_cast<const float4*>(a.norm_weight) + at);
      }
    }
  }
  __device__ void load(Batch& batch, Place& place) const {
#pragma unroll
    for (int i = 0; i < kTogether; ++i, place.next(turns)) {
      batch.of[i] = {place.row, place.turn, place.row < a.rows};
      const In* row = static_cast<const In*>(a.in) + place.row * a.ins;
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        const int at = four_of(batch.of[i]) + 4 * n;
        batch.eights[i].x[n] = {};
        if (place.row < a.rows && at < fours) batch.eights[i].x[n] = load_four(row, at);
      }
    }
  }

  // `sum` is of the squares of a row that is not complete.
  template <int kItems>
  __device__ void store(Batch& batch, LaneEight (&weights)[kTogether], float& sum) const {
    float squared[kItems] = {};
    if (kNormed) {
#pragma unroll
      for (int k = 0; k < kItems; ++k) {
        // The first two are there from before the wait. Where a warp has one item of a row they are
        // those of all.
        if (turns > 1 && batch.of[k].row * turns + batch.of[k].turn >= kTogether &&
            (turns > kTogether || turns % 2)) {
          load_weights(weights[k], batch.of[k].turn);
        }
#pragma unroll
        for (int n = 0; n < 2; ++n) {
          float4& x = batch.eights[k].x[n];
          const float4& w = weights[k].x[n];
          squared[k] += squares(x);
          x = {x.x * w.x, x.y * w.y, x.z * w.z, x.w * w.w};
        }
      }
    }
    Item of[kItems];
#pragma unroll
    for (int k = 0; k < kItems; ++k) of[k] = batch.of[k];
    store_items<F, kItems>(to, of, batch.eights);
    if (kNormed) {
#pragma unroll
      for (int k = 0; k < kItems; ++k) {
        sum += squared[k];
        if (of[k].turn < turns - 1 || of[k].row >= a.rows) continue;
        sum = warp_sum(sum);
        if (lane == 0) to.squares[of[k].row][warp] = sum;
        sum = 0;
      }
    }
  }

  __device__ void run() const {
    Batch now, next;
    Place place;
    LaneEight weights[kTogether];
    float sum = 0;
    if (kNormed) {
      load_weights(weights[0], 0);
      load_weights(weights[1], turns > 1 ? 1 : 0);
    }
    wait_for_kernel_ahead();
    load(now, place);
    if (items == 1) {
      store<1>(now, weights, sum);
      return;
    }
    load(next, place);
#pragma unroll 1
    for (int first = 0;;) {
      store<kTogether>(now, weights, sum);
      if ((first += kTogether) >= items) break;
      now = next;
      if (first + kTogether < items) load(next, place);
    }
  }
};

}  // namespace skald::cuda
