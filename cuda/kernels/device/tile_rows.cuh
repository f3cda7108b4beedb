// Activation rows as gemv_q_sm90 multiplies them with tiles: f16 with a power of two for every 128,
// and their sums, brought into shared memory by the warp that multiplies them.
#pragma once

#include "cuda/kernels/device/launch.cuh"
#include "cuda/kernels/device/math.cuh"
#include "cuda/kernels/device/mma.cuh"
#include "cuda/kernels/device/tile_lane.cuh"
#include "cuda/kernels/linear.h"

namespace skald::cuda {

inline constexpr int kMostRows = 8;
inline constexpr int kWarps = 8;  // consumers
// How far apart two parts' numbers are where a lane reads those of two rows at once.
SKALD_HD constexpr int row_stride(int rows) { return (rows + 1) / 2 * 2; }
inline constexpr int kPartialRow = 20;  // floats: 16, and no bank twice

// What a warp has of a tile: adjacent parts. Two where they are small, so that what has to be done
// for a tile besides is done for twice as much; one where a ring would have few tiles.
template <class F>
inline constexpr int kSlotParts = F::kRecordBytes / F::kParts > 1500 ? 1 : 2;

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
  float (*squares)[kWarps];  // of what comes to be normalized
  // One row instead: of each part its values as above, then 16 bytes of its sums for each lane % 4,
  // and the scale. kSumsByProduct: f16 of blocks 2 * (lane % 4) and the next in the order above,
  // and behind them the scale here already; else the floats of the lane's two blocks, twice.
  char* one;
};
inline constexpr int kOneSideAt = tiles::kPartCols * 2, kOneScaleAt = kOneSideAt + 4 * 16;
inline constexpr int kOnePartBytes = kOneScaleAt + 16;

// Four parts of a row, which the warp that brings them will multiply. A lane has 16 columns of one:
// of every 32, eight from 8 * (lane % 2) on and the eight that are 16 further.
struct Item {
  int row, turn;
  bool valid;
  // This lane's.
  template <class F>
  __device__ int part() const {
    const int warp = static_cast<int>(threadIdx.x) / 32;
    const int quarter = static_cast<int>(threadIdx.x) / 8 % 4;
    return kSlotParts<F> == 1 ? (turn * 4 + quarter) * kWarps + warp
                              : ((turn * 2 + quarter / 2) * kWarps + warp) * 2 + quarter % 2;
  }
};
struct LaneColumns {
  float4 x[4];
};

__device__ inline float most_of(float4 x) {
  return fmaxf(fmaxf(fabsf(x.x), fabsf(x.y)), fmaxf(fabsf(x.z), fabsf(x.w)));
}
__device__ inline float squares_of(float4 x) {
  return fmaf(x.w, x.w, fmaf(x.z, x.z, fmaf(x.y, x.y, x.x * x.x)));
}

// The items as f16 and a power of two for each part.
template <class F, bool kOne, int kItems>
__device__ void store_items(const Activations& to, const Item (&items)[kItems],
                            const LaneColumns (&columns)[kItems]) {
  const int lane = static_cast<int>(threadIdx.x) % 32, unit = lane / 2 % 4, upper = lane % 2;
  constexpr float kOdd = F::Codes::kOddScale;
  constexpr int kBlocks = tiles::kPartCols / F::Scales::kCols, kSums = kBlocks / tiles::kUnits;
  int exponents[kItems];
  float sums[kItems][kSums];
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    const float4(&x)[4] = columns[i].x;
    const float most =
        fmaxf(fmaxf(most_of(x[0]), most_of(x[1])), fmaxf(most_of(x[2]), most_of(x[3])));
    exponents[i] = __float_as_int(most);  // not negative: in the order of their bits
  }
#pragma unroll
  for (int offset = 1; offset < 8; offset *= 2) {
#pragma unroll
    for (int& most : exponents) most = max(most, __shfl_xor_sync(~0u, most, offset));
  }
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    // 2^e <= most < 2^(e + 1) becomes 2^14: e + 127 are the upper bits. What is too small for a
    // power's inverse to be a float is zero beside any other number. Infinity and NaN stay what
    // they are and are found among the logits.
    exponents[i] = min(max(exponents[i] >> 23, 14 + 2), 254);
    const float up = __uint_as_float(static_cast<uint32_t>(254 + 14 - exponents[i]) << 23);
    uint32_t pairs[4][2];
    float four_sums[4];
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      const float4& x = columns[i].x[n];
      pairs[n][0] = pack(Half(), x.x * up, x.y * up);
      pairs[n][1] = pack(Half(), x.z * (up / kOdd), x.w * (up / kOdd));
      four_sums[n] = (low_half(pairs[n][0]) + high_half(pairs[n][0])) +
                     (low_half(pairs[n][1]) + high_half(pairs[n][1])) * kOdd;
    }
    sums[i][0] = four_sums[0] + four_sums[1];
    if (kSums == 1) {
      sums[i][0] += four_sums[2] + four_sums[3];
    } else {
      sums[i][kSums - 1] = four_sums[2] + four_sums[3];
    }
    const int part = items[i].template part<F>();
    if (items[i].valid && part < to.parts) {
      char* at = kOne ? to.one + part * kOnePartBytes
                      : reinterpret_cast<char*>(to.values + items[i].row * to.row_stride +
                                                part * tiles::kPartCols);
      uint4* eights = reinterpret_cast<uint4*>(at + lane % 8 * 32);
      eights[0] = {pairs[0][0], pairs[0][1], pairs[2][0], pairs[2][1]};
      eights[1] = {pairs[1][0], pairs[1][1], pairs[3][0], pairs[3][1]};
    }
  }
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
#pragma unroll
    for (float& sum : sums[i]) sum += __shfl_xor_sync(~0u, sum, 1);
  }
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    const int row = items[i].row, part = items[i].template part<F>();
    if (!items[i].valid || (kSums == 1 && upper) || part >= to.parts) continue;
    char* side = to.one + part * kOnePartBytes + kOneSideAt;
    const float scale =
        __uint_as_float(static_cast<uint32_t>(exponents[i] - 14) << 23) * (1 / kCodeUnit);
    const int block = kSums == 1 ? unit : unit * 2 + upper;
    const float sum = upper ? sums[i][kSums - 1] : sums[i][0];
    if constexpr (kSumsByProduct<F>) {
      __half* at =
          reinterpret_cast<__half*>(to.sums) + (part * to.rows + row) * (2 * kBlocks) + block;
      int rest = kBlocks;
      if (kOne) {
        at = reinterpret_cast<__half*>(side + block / 2 * 16) + block % 2;
        rest = kBlocks == 4 ? 16 : 2;
      }
      const __half next = __float2half_rn(sum * kSumUnit);
      at[0] = next;
      at[rest] = __float2half_rn(sum * kSumUnit - __half2float(next));
    } else {
      const float offset = sum * (-F::kOffset * kCodeUnit);
      if (kOne) {
        float* at = reinterpret_cast<float*>(side + block / 2 * 16) + block % 2;
        at[0] = at[2] = offset;
        if (kBlocks == 4) at[8] = at[10] = offset;
      } else {
        reinterpret_cast<float*>(to.sums)[(part * kBlocks + block) * row_stride(to.rows) + row] =
            offset;
      }
    }
    if constexpr (kOne && kSumsByProduct<F>) {
      if (!upper) *reinterpret_cast<float*>(side + unit * 16 + (kBlocks == 4 ? 4 : 8)) = scale;
    } else if (lane % 8 == 0) {
      float* at = kOne ? reinterpret_cast<float*>(side - kOneSideAt + kOneScaleAt)
                       : to.scales + part * row_stride(to.rows) + row;
      *at = scale;
    }
  }
}

// A lane's columns of an item as they lie in memory.
template <class T>
struct RawColumns {
  uint4 eights[2];
  __device__ void load(const T* row, int first) {
    eights[0] = __ldcg(reinterpret_cast<const uint4*>(row + first));
    eights[1] = __ldcg(reinterpret_cast<const uint4*>(row + first + 16));
  }
  __device__ LaneColumns floats() const {
    LaneColumns columns;
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      const T* four = reinterpret_cast<const T*>(&eights[n / 2]) + n % 2 * 4;
      columns.x[n] = {to_float(four[0]), to_float(four[1]), to_float(four[2]), to_float(four[3])};
    }
    return columns;
  }
};
template <>
struct RawColumns<float> {
  LaneColumns columns;
  __device__ void load(const float* row, int first) {
    const float4* fours = reinterpret_cast<const float4*>(row + first);
#pragma unroll
    for (int n = 0; n < 4; ++n) columns.x[n] = __ldcg(fours + n / 2 * 4 + n % 2);
  }
  __device__ LaneColumns floats() const { return columns; }
};

// Brings a warp's columns of the rows into shared memory, where no other warp reads them. To be
// normalized they are multiplied by the weights alone; the finisher multiplies by what all have in
// common. As much as there are registers for is asked for at once: under the load of so many copies
// an answer takes a microsecond.
template <class F, class T, bool kNormed, bool kOne>
struct Stage {
  // Items on their way: turns of one row, else rows of a turn.
  static constexpr int kItems = kOne ? (kNormed ? 2 : 4) : kNormed ? kMostRows / 2 : kMostRows;
  static constexpr int kWeights = kOne && kNormed ? kItems : 1;
  using In = std::conditional_t<kNormed, float, T>;
  const LinearLaunch& a;
  const Activations& to;
  int lane = static_cast<int>(threadIdx.x) % 32;
  int turns = (to.parts + 4 * kWarps - 1) / (4 * kWarps);

  struct State {
    RawColumns<In> raw[kItems];
    LaneColumns weights[kWeights];
    float squares[kMostRows] = {};  // of each row
  };

  __device__ int first_column(const Item& item) const {
    return (to.first_part + item.template part<F>()) * tiles::kPartCols + lane / 2 % 4 * 32 +
           lane % 2 * 8;
  }
  __device__ void load(State& state, int i, const Item& item) const {
    state.raw[i] = {};
    const int first = first_column(item);
    if (item.valid && first < a.ins) {
      state.raw[i].load(static_cast<const In*>(a.in) + item.row * a.ins, first);
    }
  }
  __device__ void load_weights(State& state, int i, const Item& item) const {
    if (!kNormed) return;
    const int first = first_column(item);
    const float4* fours = reinterpret_cast<const float4*>(a.norm_weight + first);
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      state.weights[i].x[n] = {};
      if (item.valid && first < a.ins) state.weights[i].x[n] = __ldg(fours + n / 2 * 4 + n % 2);
    }
  }

  // From raw[first] on.
  template <int kCount>
  __device__ void store(State& state, int first, const Item (&items)[kCount]) const {
    LaneColumns columns[kCount];
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
      columns[k] = state.raw[first + k].floats();
      if (!kNormed) continue;
      float4(&x)[4] = columns[k].x;
      state.squares[kOne ? 0 : items[k].row] +=
          (squares_of(x[0]) + squares_of(x[1])) + (squares_of(x[2]) + squares_of(x[3]));
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        const float4& w = state.weights[kOne ? first + k : 0].x[n];
        x[n] = {x[n].x * w.x, x[n].y * w.y, x[n].z * w.z, x[n].w * w.w};
      }
    }
    store_items<F, kOne, kCount>(to, items, columns);
  }

  __device__ void run_one(State& state) const {
    const auto item = [&](int turn) { return Item{0, turn, turn < turns}; };
    const auto load_all_weights = [&](int first) {
#pragma unroll
      for (int i = 0; i < kItems; ++i) load_weights(state, i < kWeights ? i : 0, item(first + i));
    };
    if (kNormed) load_all_weights(0);
    wait_for_kernel_ahead();
#pragma unroll 1
    for (int first = 0;;) {
#pragma unroll
      for (int i = 0; i < kItems; ++i) load(state, i, item(first + i));
#pragma unroll
      for (int i = 0; i < kItems; i += 2) {
        const Item two[] = {item(first + i), item(first + i + 1)}, one[] = {two[0]};
        if (two[1].valid) {
          store(state, i, two);
        } else if (two[0].valid) {
          store(state, i, one);
        }
      }
      first += kItems;
      if (first >= turns) break;
      if (kNormed) load_all_weights(first);
    }
  }

  // Two rows of a turn at a time; then two are asked for of what is next but some.
  __device__ void run_many(State& state) const {
    load_weights(state, 0, {0, 0, true});
    wait_for_kernel_ahead();
#pragma unroll
    for (int i = 0; i < kItems; ++i) load(state, i, {i, 0, i < a.rows});
#pragma unroll 1
    for (int turn = 0; turn < turns; ++turn) {
#pragma unroll
      for (int first = 0; first < kMostRows; first += kItems) {
        if (first >= a.rows) break;
        const bool more = first + kItems < kMostRows && first + kItems < a.rows;
        const int next_turn = more ? turn : turn + 1, next_first = more ? first + kItems : 0;
#pragma unroll
        for (int i = 0; i < kItems; i += 2) {
          const int row = first + i;
          const Item two[] = {{row, turn, true}, {row + 1, turn, row + 1 < a.rows}};
          if (row < a.rows) store(state, i, two);
#pragma unroll
          for (int k = i; k < i + 2; ++k) {
            const int next = next_first + k;
            load(state, k, {next, next_turn, next_turn < turns && next < a.rows});
          }
        }
      }
      if (turn + 1 < turns) load_weights(state, 0, {0, turn + 1, true});
    }
  }

  __device__ void run() const {
    State state;
    if constexpr (kOne) {
      run_one(state);
    } else {
      run_many(state);
    }
    if (!kNormed) return;
    const int warp = static_cast<int>(threadIdx.x) / 32;
#pragma unroll
    for (int row = 0; row < (kOne ? 1 : kMostRows); ++row) {
      const float sum = warp_sum(state.squares[row]);
      if (lane == 0) to.squares[row][warp] = sum;
    }
  }
};

}  // namespace skald::cuda
