// Activation rows as gemv_q_sm90 multiplies them with tiles, brought into shared memory by the warp
// that multiplies them: one as digits (digits.cuh), several as f16 with a power of two for every
// 128, and their sums.
#pragma once

#include "cuda/kernels/device/digits.cuh"
#include "cuda/kernels/device/launch.cuh"
#include "cuda/kernels/device/math.cuh"
#include "cuda/kernels/device/mma.cuh"
#include "cuda/kernels/device/tile_lane.cuh"
#include "cuda/kernels/linear.h"

namespace skald::cuda {

inline constexpr int kMostRows = 8;
// How far apart two parts' numbers are where a lane reads those of two rows at once.
SKALD_HD constexpr int row_stride(int rows) { return (rows + 1) / 2 * 2; }
inline constexpr int kPartialRow = 20;  // floats: 16, and no bank twice

// What a tile has: so many parts that what has to be done for it besides is done for twice as much,
// fewer where a ring would have few tiles.
template <class F>
inline constexpr int kTileParts = F::kRecordBytes / F::kParts > 1500 ? 8 : 16;
// The warps of a block that multiply, each adjacent parts of a tile. One row's are so few that a
// scheduler has one, since what is done for a tile besides is done by each; with all the registers
// that it needs to be at several parts at once.
template <bool kOne>
inline constexpr int kWarps = kOne ? 4 : 8;
inline constexpr int kMostWarps = 8;
template <class F, bool kOne>
inline constexpr int kWarpParts = kTileParts<F> / kWarps<kOne>;
// Parts that the warps of one row bring at a time, of a tile or of two.
inline constexpr int kStageParts = 16;

// What is taken off for minimums is a product of them and sums of activations, by one matrix
// instruction a part; for an offset of codes it is where a block's sum begins.
template <class F>
inline constexpr bool kSumsByProduct = F::kHasMin;
inline constexpr float kSumUnit = 1.0f / 64;

// Rows in shared memory. A row starts 64 bytes further than a multiple of 128, so that two rows'
// reads fall into different banks.
struct Activations {
  int rows;               // of the step
  int first_part, parts;  // of a row
  // [rows, activation_row]; of every 32, first the eight that lane l % 4 = 0 of a group multiplies.
  __half* values;
  int row_stride;
  float* scales;  // [parts, row_stride]: what a part's sums are to be multiplied by
  // Of the values of each block of kCols columns. kSumsByProduct: f16 [parts, rows, 2 * blocks of a
  // part], times kSumUnit, first the f16 next to each, then what is left. Else float [blocks,
  // row_stride], times what is to be taken off for the offset of codes.
  char* sums;
  float (*squares)[kMostWarps];  // of what comes to be normalized
  char* one;                     // one row instead: DigitPart of each part
};

__device__ inline float add_squares(float sum, float4 x) {
  return fmaf(x.w, x.w, fmaf(x.z, x.z, fmaf(x.y, x.y, fmaf(x.x, x.x, sum))));
}

// Two parts of a row, which the warp that brings them will multiply. A lane has the eight of every
// 32 columns that it or its like multiplies.
struct Item {
  int row, turn;
  bool valid;
  // The part of the warp's upper or lower lanes.
  template <class F>
  __device__ int part() const {
    const int warp = static_cast<int>(threadIdx.x) / 32,
              half = static_cast<int>(threadIdx.x) / 16 % 2;
    return kWarpParts<F, false> == 1 ? (turn * 2 + half) * kWarps<false> + warp
                                     : (turn * kWarps<false> + warp) * 2 + half;
  }
};
struct LaneEight {
  float4 x[2];  // columns 4 * (lane % 4) and 16 further
};

__device__ inline float largest(const float4& x) {
  return fmaxf(fmaxf(fabsf(x.x), fabsf(x.y)), fmaxf(fabsf(x.z), fabsf(x.w)));
}

// The items as f16 and a power of two for each part.
template <class F, int kItems>
__device__ void store_items(const Activations& to, const Item (&items)[kItems],
                            const LaneEight (&eights)[kItems]) {
  const int lane = static_cast<int>(threadIdx.x) % 32, unit = lane / 4;
  constexpr float kOdd = F::Codes::kOddScale;
  constexpr int kBlocks = tiles::kPartCols / F::Scales::kCols, kSums = kBlocks / tiles::kUnits;
  int exponents[kItems];
  float sums[kItems][kSums];
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    // Floats that are not negative are in the order of their bits.
    const unsigned bits = __float_as_uint(fmaxf(largest(eights[i].x[0]), largest(eights[i].x[1])));
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
      char* at = reinterpret_cast<char*>(to.values + items[i].row * to.row_stride +
                                         part * tiles::kPartCols);
      *reinterpret_cast<uint4*>(at + lane % 16 * 16) = {pairs[0], pairs[1], pairs[2], pairs[3]};
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
    const float scale =
        __uint_as_float(static_cast<uint32_t>(exponents[i] - 14) << 23) * (1 / kCodeUnit);
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
        reinterpret_cast<float*>(to.sums)[(part * kBlocks + block) * row_stride(to.rows) + row] =
            sums[i][n] * (-F::kOffset * kCodeUnit);
      }
    }
    if (unit % 4 == 0) to.scales[part * row_stride(to.rows) + row] = scale;
  }
}

// Four numbers of shared memory as floats.
__device__ inline void load_four(float4& four, const float* at) {
  four = *reinterpret_cast<const float4*>(at);
}
__device__ inline void load_four(float4& four, const Bf16* at) {
  const uint2 bits = *reinterpret_cast<const uint2*>(at);
  four = {__uint_as_float(bits.x << 16), __uint_as_float(bits.x & 0xffff0000),
          __uint_as_float(bits.y << 16), __uint_as_float(bits.y & 0xffff0000)};
}

// Four columns of a row as they lie in memory.
template <class T>
__device__ void load_raw(uint2& bits, const T* row, int at) {
  bits = __ldcg(reinterpret_cast<const uint2*>(row) + at);
}
__device__ inline void load_raw(float4& four, const float* row, int at) {
  four = __ldcg(reinterpret_cast<const float4*>(row) + at);
}
template <class T>
__device__ float4 floats(const uint2& bits) {
  const T* four = reinterpret_cast<const T*>(&bits);
  return {to_float(four[0]), to_float(four[1]), to_float(four[2]), to_float(four[3])};
}
template <class T>
__device__ float4 floats(const float4& four) {
  return four;
}

__device__ inline float4 times(const float4& x, const float4& w) {
  return {x.x * w.x, x.y * w.y, x.z * w.z, x.w * w.w};
}

// Brings a warp's columns of several rows into shared memory, where no other warp reads them. To be
// normalized they are multiplied by the weights alone; the finisher multiplies by what all have in
// common. Everything that there are registers for is asked for at once: under the load of so many
// copies an answer takes a microsecond.
template <class F, class T, bool kNormed>
struct StageMany {
  static constexpr int kTogether = 2;
  using In = std::conditional_t<kNormed, float, T>;
  using Raw = std::conditional_t<kNormed, float4, uint2>;
  const LinearLaunch& a;
  const Activations& to;
  int lane = static_cast<int>(threadIdx.x) % 32;
  int fours = static_cast<int>(a.ins / 4);
  int turns = (to.parts + 2 * kWarps<false> - 1) / (2 * kWarps<false>);

  struct Step {
    Raw x[kMostRows][2];
    LaneEight weights;
  };

  // Where a lane's first four columns of an item are in a row, in fours; the others are 4 further.
  __device__ int four_of(const Item& item) const {
    return (to.first_part + item.template part<F>()) * (tiles::kPartCols / 4) + lane % 16 / 4 * 8 +
           lane % 4;
  }
  __device__ Item item(int turn, int row) const {
    return {row, turn, turn < turns && row < a.rows};
  }
  __device__ void load_weights(Step& step, int turn) const {
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      const int at = four_of(item(turn, 0)) + 4 * n;
      step.weights.x[n] = {};
      if (turn < turns && at < fours) {
        step.weights.x[n] = __ldg(reinterpret_cast<const float4*>(a.norm_weight) + at);
      }
    }
  }
  __device__ void load(Step& step, int turn) const {
#pragma unroll
    for (int row = 0; row < kMostRows; ++row) {
      const Item of = item(turn, row);
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        const int at = four_of(of) + 4 * n;
        step.x[row][n] = {};
        if (of.valid && at < fours) {
          load_raw(step.x[row][n], static_cast<const In*>(a.in) + row * a.ins, at);
        }
      }
    }
  }

  // `sums` of squares of each row.
  __device__ void store(const Step& step, int turn, float (&sums)[kMostRows]) const {
#pragma unroll
    for (int first = 0; first < kMostRows; first += kTogether) {
      Item of[kTogether];
      LaneEight eights[kTogether];
      if (!item(turn, first).valid) break;
#pragma unroll
      for (int k = 0; k < kTogether; ++k) {
        const int row = first + k;
        of[k] = item(turn, row);
#pragma unroll
        for (int n = 0; n < 2; ++n) {
          float4& x = eights[k].x[n];
          x = floats<T>(step.x[row][n]);
          if (kNormed) {
            sums[row] = add_squares(sums[row], x);
            x = times(x, step.weights.x[n]);
          }
        }
      }
      store_items<F>(to, of, eights);
    }
  }

  __device__ void run() const {
    Step now;
    float sums[kMostRows] = {};
    if (kNormed) load_weights(now, 0);
    wait_for_kernel_ahead();
    load(now, 0);
#pragma unroll 1
    for (int turn = 0;;) {
      Step next;
      if (turn + 1 < turns) {
        load(next, turn + 1);
        if (kNormed) load_weights(next, turn + 1);
      }
      store(now, turn, sums);
      if (++turn == turns) break;
      now = next;
    }
    if (!kNormed) return;
    const int warp = static_cast<int>(threadIdx.x) / 32;
#pragma unroll
    for (int row = 0; row < kMostRows; ++row) {
      const float sum = warp_sum(sums[row]);
      if (lane == 0) to.squares[row][warp] = sum;
    }
  }
};

}  // namespace skald::cuda
