// What a block of gemm_q_sm90 has to do, and the end of it: sums of the cluster's blocks become
// results.
#pragma once

#include "cuda/kernels/device/cluster.cuh"
#include "cuda/kernels/device/gemm_q_rows.cuh"
#include "cuda/kernels/device/launch.cuh"
#include "cuda/kernels/device/math.cuh"
#include "cuda/kernels/device/mma.cuh"
#include "cuda/kernels/device/wgmma.cuh"
#include "cuda/kernels/gemm_q.h"
#include "cuda/kernels/tiles/formats.h"

namespace skald::cuda {

inline constexpr int kMostGroups = 16;  // of a block

// What a block takes at a time: 256 columns, of weights of 8 bits 128.
template <class F>
inline constexpr int kStepRecords = F::Codes::kBytes < 2048 ? 2 / F::kParts : 1;
template <class F>
inline constexpr int kStepParts = kStepRecords<F>* F::kParts;
template <class F>
inline constexpr int kStepCols = kStepRecords<F>* F::kRecordCols;

#if SKALD_HAS_WGMMA

// Where the share of block `rank` of a cluster begins: count * rank / splits, without a division,
// which takes 25 instructions and the code for them. What kInverseBits are enough for.
__device__ inline int share_begin(const GemmQPlan& plan, int count, int rank) {
  return static_cast<int>(static_cast<unsigned>(count * rank) * plan.inverse >> kInverseBits);
}

// What a block does.
struct GemmShare {
  int first_group, groups;  // of weight rows
  int row_tile;
  int first_step, steps, parts;
  template <class F>
  __device__ GemmShare(F, const GemmQPlan& plan, int tile)
      : first_group(tile * plan.tile_groups),
        groups(min(plan.tile_groups, plan.groups - first_group)),
        row_tile(static_cast<int>(blockIdx.y)),
        first_step(share_begin(plan, plan.steps, static_cast<int>(blockIdx.x))),
        steps(share_begin(plan, plan.steps, static_cast<int>(blockIdx.x) + 1) - first_step),
        parts(min(steps * kStepParts<F>, plan.records * F::kParts - first_step * kStepParts<F>)) {}
};

// The code of this part runs once in a block: it is to be short, for it comes from memory.

__device__ inline uint32_t two_numbers(DType type, float low, float high) {
  return type == DType::BF16 ? pack(Bf16(), low, high)
                             : pack(Half(), fminf(fmaxf(low, -65504.0f), 65504.0f),
                                    fminf(fmaxf(high, -65504.0f), 65504.0f));
}

// `count` of the bytes' numbers to `to`, in one access where that is possible.
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

// Results of up to four weight rows from `out` on, of gated ones the two that they make; x has room
// for what is not stored.
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

// The cluster's sums lie in its blocks' shared memory, [kRows, pitch] each, of which each block
// adds up some rows. A warp takes 128 weight rows of an activation row at a time.
template <int kRows>
struct Finish {
  const LinearLaunch& a;
  const GemmQPlan& plan;
  const GemmShare& share;
  int rank = static_cast<int>(blockIdx.x), first_row = share.row_tile * kRows;
  int rows = min(kRows, a.rows - first_row), first = share_begin(plan, rows, rank);
  bool two = share.groups > 8;  // times 128 weight rows
  int items = (share_begin(plan, rows, rank + 1) - first) << two;
  float4 old = {};
  float4 next_weight = {};
  float last_norm = 0;

  struct Place {
    int row, four, count;
    int64_t out;
  };
  __device__ Place place(int item) const {
    const int four = (two ? item % 2 * 32 : 0) + static_cast<int>(threadIdx.x) % 32;
    const int64_t out = int64_t{share.first_group} * tiles::kRows + four * 4;
    const int left = static_cast<int>(min(int64_t{4}, a.outs - out));
    const bool valid = item < items && four < share.groups * (tiles::kRows / 4);
    return {first + (item >> two), four, valid ? left : 0, out};
  }

  // What results are added to, of the item to come.
  __device__ void load_old(int item) {
    if (a.epilogue != Epilogue::AddTo) return;
    const Place at = place(item);
    if (a.next_norm_weight && at.count > 0) {
      next_weight = *reinterpret_cast<const float4*>(a.next_norm_weight + at.out);
      last_norm = __ldcg(
          reinterpret_cast<const float*>(static_cast<const char*>(a.handed) + plan.next_at.norms) +
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

  // The first item's were loaded before.
  __device__ void run(float* sums, int pitch) {
    if (a.leaves.memory) return leave(sums, pitch);
    constexpr int kTogether = 4;
    const int warp = static_cast<int>(threadIdx.x) / 32;
#pragma unroll 1
    for (int item = warp; item < items; item += plan.warps) {
      if (item != warp) load_old(item);
      const Place at = place(item);
      if (at.count <= 0) continue;
      float4 bias = {};
      if (a.bias) {
        bias.x = a.bias[at.out];
        if (at.count > 1) bias.y = a.bias[at.out + 1];
        if (at.count > 2) bias.z = a.bias[at.out + 2];
        if (at.count > 3) bias.w = a.bias[at.out + 3];
      }
      float4 x = {};
#pragma unroll 1
      for (int block = 0; block < plan.splits; block += kTogether) {
        float4 part[kTogether];
#pragma unroll
        for (int i = 0; i < kTogether; ++i) {
          part[i] = {};
          if (block + i < plan.splits) {
            part[i] = *reinterpret_cast<const float4*>(of_block(sums, block + i) + at.row * pitch +
                                                       at.four * 4);
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
      }
      store_results(a, first_row + at.row, at.out, at.count, x);
      if (a.next_norm_weight) hand_over(at, x);
    }
  }

  // Gated results for the next product: a lane makes eight, of a row by a group of weight rows, so
  // that none waits for another's but once, and no two lanes meet in a bank.
  __device__ void leave(float* sums, int pitch) const {
    constexpr int kTogether = kRows < 16 ? kRows : 16;  // rows of a warp's lanes
    constexpr int kGroups = 32 / kTogether, kColumns = tiles::kRows / 2;
    const LeftTile to(a.leaves, share.row_tile);
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int end = share_begin(plan, rows, rank + 1);
#pragma unroll 1
    for (int item = static_cast<int>(threadIdx.x) / 32;; item += plan.warps) {
      const int first_of_all = first + item / (kMostGroups / kGroups) * kTogether;
      if (first_of_all >= end) break;
      const int row = first_of_all + lane % kTogether;
      const int group = item % (kMostGroups / kGroups) * kGroups + lane / kTogether;
      const bool valid = row < end && group < share.groups;
      float x[tiles::kRows] = {};
#pragma unroll 1
      for (int block = 0; valid && block < plan.splits; ++block) {
        const float* from = of_block(sums, block) + row * pitch + group * tiles::kRows;
#pragma unroll
        for (int i = 0; i < tiles::kRows; i += 4) {
          const float4 four = *reinterpret_cast<const float4*>(from + i);
          x[i] += four.x, x[i + 1] += four.y, x[i + 2] += four.z, x[i + 3] += four.w;
        }
      }
      const int64_t out = int64_t{share.first_group + group} * tiles::kRows;
      if (a.bias && valid) {
#pragma unroll
        for (int i = 0; i < tiles::kRows; ++i) x[i] += a.bias[out + i];
      }
      float gated[kColumns];
#pragma unroll
      for (int i = 0; i < kColumns; ++i) {
        gated[i] = activate_briefly(x[2 * i] * a.scale, a.activation) * (x[2 * i + 1] * a.scale);
      }
      const auto at_row = static_cast<unsigned>(row), col = static_cast<unsigned>(out / 2);
      float sum = valid ? to.put(gated, at_row, col) : 0;
      sum += __shfl_xor_sync(~0u, sum, kTogether);
      if (valid && col % 16 == 0) to.put_sum(sum, at_row, col);
    }
  }

  // Four of a row's results times the weights of the next product's norm. What the row's norm is
  // now nobody knows yet, so a power of two near the one before brings numbers into f16's range:
  // such a row may grow to 2^19 times its size. Eight lanes have 32 columns.
  __device__ void hand_over(const Place& at, const float4& x) const {
    char* const memory = static_cast<char*>(a.handed);
    const GemmQPlaces& places = plan.next_at;
    const int64_t row = first_row + at.row;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int exponent = static_cast<int>(__float_as_uint(last_norm) >> 23 & 255);
    const float up = __uint_as_float(static_cast<uint32_t>(min(max(exponent, 64), 190) - 3) << 23);
    const float odd_up = up / plan.next_odd;
    const uint32_t pairs[] = {
        pack(Half(), x.x * next_weight.x * up, x.y * next_weight.y * up),
        pack(Half(), x.z * next_weight.z * odd_up, x.w * next_weight.w * odd_up)};
    const RowTile tile(memory, places, kRows, share.row_tile);
    tile.put_four(pairs, at.row, at.out);
    float sum = low_half(pairs[0]) + high_half(pairs[0]) +
                (low_half(pairs[1]) + high_half(pairs[1])) * plan.next_odd;
    float squares = x.x * x.x + x.y * x.y + (x.z * x.z + x.w * x.w);
#pragma unroll
    for (int offset = 1; offset < 8; offset *= 2) {
      sum += __shfl_xor_sync(0xffu << (lane & 24), sum, offset);
      squares += __shfl_xor_sync(0xffu << (lane & 24), squares, offset);
    }
    if (lane % 8 > 0) return;
    tile.put_sum(sum, at.row, at.out);
    reinterpret_cast<float*>(memory + places.squares)[row * (places.cols / 32) + at.out / 32] =
        squares;
    if (at.out == 0) reinterpret_cast<float*>(memory + places.scales)[row] = 1 / up;
  }
};

#endif

}  // namespace skald::cuda
