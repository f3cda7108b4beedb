// The share of a product that one block of gemm_q_sm90 computes, and the block's epilogue, which
// makes results from the sums of all blocks of the cluster.
#pragma once

#include "cuda/kernels/device/cluster.cuh"
#include "cuda/kernels/device/launch.cuh"
#include "cuda/kernels/device/math.cuh"
#include "cuda/kernels/device/mma.cuh"
#include "cuda/kernels/device/wgmma.cuh"
#include "cuda/kernels/gemm_q/gemm_q.h"
#include "cuda/kernels/tiles/formats.h"
#include "cuda/kernels/tiles/prepared_rows.cuh"

namespace skald::cuda {

inline constexpr int kMostGroups = 16;  // groups of a block

// A step is the work between two waits: 256 columns, or 128 if weights have 8 bits.
template <class F>
inline constexpr int kStepRecords = F::Codes::kBytes < 2048 ? 2 / F::kParts : 1;
template <class F>
inline constexpr int kStepParts = kStepRecords<F>* F::kParts;
template <class F>
inline constexpr int kStepCols = kStepRecords<F>* F::kRecordCols;

// Each block of a cluster finishes every splits-th row: it adds up the sums of all blocks for that
// row. Up to kMostRowsSent rows the other blocks send their sums. With more rows sending is no
// faster, and the block reads their sums.
inline constexpr int kMostRowsSent = 8;

#if SKALD_HAS_WGMMA

// count / splits, without a division, which takes 25 instructions and the code for them.
// kInverseBits bounds `count`.
__device__ inline int divide_by_splits(const GemmQPlan& plan, int count) {
  return static_cast<int>(static_cast<unsigned>(count) * plan.inverse >> kInverseBits);
}
// The first item of block `rank`'s share, if `count` items are divided among the blocks of a
// cluster.
__device__ inline int share_begin(const GemmQPlan& plan, int count, int rank) {
  return divide_by_splits(plan, count * rank);
}

// The part of the product that one block computes.
struct GemmShare {
  int first_group, groups;  // groups of 16 weight rows
  int warps;                // multiplying warps: whole warpgroups
  int row_tile;
  int first_step, steps, parts;
  template <class F>
  __device__ GemmShare(F, const GemmQPlan& plan, int tile)
      : first_group(tile * plan.tile_groups - max(tile - plan.wide_tiles, 0) * plan.less),
        groups(min(plan.tile_groups - (tile >= plan.wide_tiles ? plan.less : 0),
                   plan.groups - first_group)),
        warps((groups + 3) / 4 * 4),
        row_tile(static_cast<int>(blockIdx.y)),
        first_step(share_begin(plan, plan.steps, static_cast<int>(blockIdx.x))),
        steps(share_begin(plan, plan.steps, static_cast<int>(blockIdx.x) + 1) - first_step),
        parts(min(steps * kStepParts<F>, plan.records * F::kParts - first_step * kStepParts<F>)) {}
};

// The code from here on runs once per block. It should be short, since it is fetched from memory.

__device__ inline uint32_t two_numbers(DType type, float low, float high) {
  return type == DType::BF16 ? pack(Bf16(), low, high)
                             : pack(Half(), fminf(fmaxf(low, -65504.0f), 65504.0f),
                                    fminf(fmaxf(high, -65504.0f), 65504.0f));
}

// Stores the first `count` words of `bytes` to `to`, in one access if possible.
template <class Word, class Bytes>
__device__ void store_words(Word* to, const Bytes& bytes, int count) {
  constexpr int kMost = sizeof(Bytes) / sizeof(Word);
  if (count == kMost && reinterpret_cast<uintptr_t>(to) % sizeof(Bytes) == 0) {
    *reinterpret_cast<Bytes*>(to) = bytes;
    return;
  }
#pragma unroll
  for (int i = 0; i < kMost; ++i) {
    if (i < count) to[i] = reinterpret_cast<const Word*>(&bytes)[i];
  }
}

// Stores results of up to four weight rows from `out` on. Gated: x holds two results, made from
// four weight rows.
__device__ inline void store_results(const LinearLaunch& a, int64_t row, int64_t out, int count,
                                     float4 x) {
  const int64_t first = row * a.out_stride;
  if (a.epilogue == Epilogue::Gated) {
    store_words(static_cast<uint16_t*>(a.out) + first + out / 2, two_numbers(a.type, x.x, x.y),
                count / 2);
  } else if (a.epilogue == Epilogue::Store) {
    const uint2 four = {two_numbers(a.type, x.x, x.y), two_numbers(a.type, x.z, x.w)};
    store_words(static_cast<uint16_t*>(a.out) + first + out, four, count);
  } else {
    store_words(static_cast<float*>(a.out) + first + out, x, count);
  }
}

// The epilogue of a block. The block's own sums lie in shared memory, [kRows, pitch]. Sums sent by
// other blocks lie behind them, [block, own row, pitch]. A warp takes an item at a time: 128 weight
// rows of an activation row.
template <int kRows>
struct Finish {
  const LinearLaunch& a;
  const GemmQPlan& plan;
  const GemmShare& share;
  float* sums;
  int pitch;  // floats of a row: four more than weight rows, so that no two lanes use one bank
  int rank = static_cast<int>(blockIdx.x), first_row = share.row_tile * kRows;
  int rows = min(kRows, a.rows - first_row);
  // The most rows that a block finishes.
  int most_own = divide_by_splits(plan, rows + plan.splits - 1);
  int own_rows = divide_by_splits(plan, rows - rank + plan.splits - 1);
  bool two = share.groups > 8;  // a row has two items of 128 weight rows
  float4 old = {};
  float4 next_weight = {};
  float last_norm = 0;

  __device__ int own_row(int i) const { return rank + i * plan.splits; }
  __device__ float* sent_by(int from, int i) const {
    return sums + (kRows + from * most_own + i) * pitch;
  }
  __device__ bool is_sent() const { return kRows <= kMostRowsSent && plan.splits > 1; }
  // The sums that block `from` has for this block's i-th row.
  __device__ const float* sums_of(int from, int i) const {
    return is_sent() ? sent_by(from, i) : of_block(sums, from) + own_row(i) * pitch;
  }
  // The bytes that send() of all blocks will send here. One thread calls it before the cluster
  // synchronizes.
  __device__ void expect(uint64_t* inbox) const {
    barrier_expect_bytes(inbox, static_cast<uint32_t>(plan.splits * own_rows * share.groups *
                                                      (tiles::kRows * sizeof(float))));
  }
  // All multiplying warps call it, once the cluster has synchronized and the block's sums are
  // stored.
  __device__ void send(uint64_t* inbox) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll 1
    for (int row = static_cast<int>(threadIdx.x) / 32; row < rows; row += share.warps) {
      const int i = divide_by_splits(plan, row), to = row - i * plan.splits;
#pragma unroll 1
      for (int out = lane * 4; out < share.groups * tiles::kRows; out += 32 * 4) {
        const float4 four = *reinterpret_cast<const float4*>(sums + row * pitch + out);
        send_four(sent_by(rank, i) + out, four, inbox, to);
      }
    }
  }

  struct Place {
    int i, row, four, count;
    int64_t out;
  };
  __device__ Place place(int item) const {
    const int four = (two ? item % 2 * 32 : 0) + static_cast<int>(threadIdx.x) % 32;
    const int i = item >> two;
    const int64_t out = int64_t{share.first_group} * tiles::kRows + four * 4;
    const int left = static_cast<int>(min(int64_t{4}, a.outs - out));
    const bool valid = i < own_rows && four < share.groups * (tiles::kRows / 4);
    return {i, own_row(i), valid ? four : 0, valid ? left : 0, out};
  }

  // Loads the old values of an item's outputs, one item ahead.
  __device__ void load_old(int item) {
    if (a.epilogue != Epilogue::AddTo) return;
    const Place at = place(item);
    if (a.gemm_q.next_norm_weight && at.count > 0) {
      next_weight = *reinterpret_cast<const float4*>(a.gemm_q.next_norm_weight + at.out);
      last_norm = __ldcg(reinterpret_cast<const float*>(static_cast<const char*>(a.gemm_q.carried) +
                                                        plan.next_at.norms) +
                         first_row + at.row);
    }
    const float* from =
        static_cast<const float*>(a.out) + (first_row + at.row) * a.out_stride + at.out;
    if (at.count == 4 && reinterpret_cast<uintptr_t>(from) % 16 == 0) {
      old = __ldcg(reinterpret_cast<const float4*>(from));
      return;
    }
    if (at.count > 0) old.x = __ldcg(from);
    if (at.count > 1) old.y = __ldcg(from + 1);
    if (at.count > 2) old.z = __ldcg(from + 2);
    if (at.count > 3) old.w = __ldcg(from + 3);
  }

  // Finishes all items. load_old() was called for the first item before.
  __device__ void run() {
    if (a.gemm_q.prepares.memory) return write_prepared();
    constexpr int kTogether = 4;
    const int warp = static_cast<int>(threadIdx.x) / 32;
#pragma unroll 1
    for (int item = warp; item < own_rows << two; item += share.warps) {
      if (item != warp) load_old(item);
      const Place at = place(item);
      float4 bias = {};
      if (a.bias) {
        if (at.count > 0) bias.x = a.bias[at.out];
        if (at.count > 1) bias.y = a.bias[at.out + 1];
        if (at.count > 2) bias.z = a.bias[at.out + 2];
        if (at.count > 3) bias.w = a.bias[at.out + 3];
      }
      float4 x = {};
#pragma unroll 1
      for (int block = 0; block < plan.splits; block += kTogether) {
        float4 part[kTogether];
#pragma unroll
        for (int k = 0; k < kTogether; ++k) {
          part[k] = {};
          if (block + k < plan.splits) {
            part[k] = *reinterpret_cast<const float4*>(sums_of(block + k, at.i) + at.four * 4);
          }
        }
#pragma unroll
        for (const float4& p : part) x.x += p.x, x.y += p.y, x.z += p.z, x.w += p.w;
      }
      x = {x.x * a.scale + (a.scale * bias.x + old.x), x.y * a.scale + (a.scale * bias.y + old.y),
           x.z * a.scale + (a.scale * bias.z + old.z), x.w * a.scale + (a.scale * bias.w + old.w)};
      if (a.epilogue == Epilogue::Gated) {
        x.x = activate_briefly(x.x, a.activation) * x.y;
        x.y = activate_briefly(x.z, a.activation) * x.w;
      } else if (a.activates) {
        x = {activate_briefly(x.x, a.activation), activate_briefly(x.y, a.activation),
             activate_briefly(x.z, a.activation), activate_briefly(x.w, a.activation)};
      }
      if (at.count > 0) store_results(a, first_row + at.row, at.out, at.count, x);
      if (a.gemm_q.next_norm_weight) write_carried(at, x);
    }
  }

  // Stores gated results as prepared rows of the next product. A lane computes eight results of a
  // row from one group of weight rows, so that it waits for other lanes only once. With few rows it
  // computes two, so that all warps have work.
  __device__ void write_prepared() const {
    constexpr int kColumns = tiles::kRows / 2, kEach = kRows == 8 ? 2 : kColumns;
    constexpr int kLanes = kColumns / kEach;        // lanes of a group
    constexpr int kTogether = kRows == 8 ? 4 : 16;  // activation rows that a warp takes at once
    constexpr int kGroups = 32 / kTogether / kLanes;
    static_assert(kGroups == 2);  // as many groups as share a sum of 16 columns
    const PreparedTile to(a.gemm_q.prepares, share.row_tile);
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int part = lane / kTogether % kLanes * kEach;
#pragma unroll 1
    for (int item = static_cast<int>(threadIdx.x) / 32;; item += share.warps) {
      const int first_of_all = item / (kMostGroups / kGroups) * kTogether;
      if (first_of_all >= own_rows) break;
      const int own = first_of_all + lane % kTogether, row = own_row(own);
      const int group = item % (kMostGroups / kGroups) * kGroups + lane / (kTogether * kLanes);
      const bool valid = own < own_rows && group < share.groups;
      float x[2 * kEach] = {};
#pragma unroll 1
      for (int block = 0; valid && block < plan.splits; ++block) {
        const float* from = sums_of(block, own) + group * tiles::kRows + 2 * part;
#pragma unroll
        for (int i = 0; i < 2 * kEach; i += 4) {
          const float4 four = *reinterpret_cast<const float4*>(from + i);
          x[i] += four.x, x[i + 1] += four.y, x[i + 2] += four.z, x[i + 3] += four.w;
        }
      }
      const int64_t out = int64_t{share.first_group + group} * tiles::kRows + 2 * part;
      if (a.bias && valid) {
#pragma unroll
        for (int i = 0; i < 2 * kEach; ++i) x[i] += a.bias[out + i];
      }
      float gated[kEach];
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        gated[i] = activate_briefly(x[2 * i] * a.scale, a.activation) * (x[2 * i + 1] * a.scale);
      }
      const auto at_row = static_cast<unsigned>(row), col = static_cast<unsigned>(out / 2);
      float sum = valid ? to.put(gated, at_row, col) : 0;
#pragma unroll
      for (int offset = kTogether; offset < 32; offset *= 2) {
        sum += __shfl_xor_sync(~0u, sum, offset);
      }
      if (valid && col % 16 == 0) to.put_sum(sum, at_row, col);
    }
  }

  // Stores four of a row's results, times the next product's norm weights, as carried rows. The
  // row's norm is not known yet. So a power of two near its last norm brings the numbers into f16's
  // range; the row may grow to 2^19 times its size. Eight lanes have 32 columns.
  __device__ void write_carried(const Place& at, const float4& x) const {
    char* const memory = static_cast<char*>(a.gemm_q.carried);
    const PreparedLayout& places = plan.next_at;
    const auto row = static_cast<unsigned>(at.row), col = static_cast<unsigned>(at.out);
    const int exponent = static_cast<int>(__float_as_uint(last_norm) >> 23 & 255);
    const float up = __uint_as_float(static_cast<uint32_t>(min(max(exponent, 64), 190) - 3) << 23);
    const float odd_up = quotient_of_powers(up, plan.next_odd);
    const uint32_t pairs[] = {
        pack(Half(), x.x * next_weight.x * up, x.y * next_weight.y * up),
        pack(Half(), x.z * next_weight.z * odd_up, x.w * next_weight.w * odd_up)};
    const RowTile tile(memory, places, kRows, share.row_tile);
    float sum = low_half(pairs[0]) + high_half(pairs[0]) +
                (low_half(pairs[1]) + high_half(pairs[1])) * plan.next_odd;
    float squares = x.x * x.x + x.y * x.y + (x.z * x.z + x.w * x.w);
#pragma unroll
    for (int offset = 1; offset < 8; offset *= 2) {
      sum += __shfl_xor_sync(~0u, sum, offset);
      squares += __shfl_xor_sync(~0u, squares, offset);
    }
    if (at.count <= 0) return;
    tile.put_four(pairs, row, col);
    if (threadIdx.x % 8 > 0) return;
    tile.put_sum(sum, row, col);
    const unsigned sums_of_row = static_cast<unsigned>(places.cols) / 32;
    reinterpret_cast<float*>(memory + places.squares)[(first_row + row) * sums_of_row + col / 32] =
        squares;
    if (col == 0) {
      reinterpret_cast<float*>(memory + places.scales)[first_row + row] = quotient_of_powers(1, up);
    }
  }
};

#endif

}  // namespace skald::cuda
