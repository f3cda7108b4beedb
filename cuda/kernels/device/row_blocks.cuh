// The blocks of a cluster that share a row of logits: each has a slice of it. They agree on sums,
// on the best token, and on the place in a histogram where a sum is reached. Sums are of integers,
// so the result does not depend on who adds what.
#pragma once

#include <cstdint>

#include "cuda/kernels/device/cluster.cuh"
#include "engine/token_weight.h"

namespace skald::cuda {

inline constexpr int kRowThreads = 1024;
inline constexpr int kMostRowBlocks = 8;  // the largest portable cluster
inline constexpr int kBins = 2048;
inline constexpr int kMostListed = 4096;

// Ranks tokens: the larger key first, equal logits by lower id. Below kMostWeighedTokens an id
// takes 20 bits. 0 is no token.
inline constexpr int kIdBits = 20;
inline constexpr uint64_t kIdMask = (uint64_t{1} << kIdBits) - 1;

__device__ inline uint64_t rank_key(float logit, int id) {
  const uint32_t bits = f32_to_bits(logit + 0.0f);  // -0 becomes 0, which it equals
  const uint32_t order = bits >> 31 ? ~bits : bits | 0x80000000u;
  return uint64_t{order} << kIdBits | (kIdMask - static_cast<uint64_t>(id));
}
__device__ inline int id_of_key(uint64_t key) {
  return static_cast<int>(kIdMask - (key & kIdMask));
}
__device__ inline float logit_of_key(uint64_t key) {
  const uint32_t order = static_cast<uint32_t>(key >> kIdBits);
  return bits_to_f32(order >> 31 ? order & 0x7fffffffu : ~order);
}

struct Crossing {
  int bin;          // where the sum reaches the goal; kBins: it never does
  uint64_t before;  // the sum of all bins before it
};

// A block's shared memory, before its slice of the row.
struct RowShared {
  uint32_t low[kBins], high[kBins];  // a histogram; 64-bit additions are slow in shared memory
  uint64_t list[kMostListed];        // block 0: keys of candidates
  uint64_t warps[kRowThreads / 32];
  uint64_t parts[2][kMostRowBlocks];  // what each block brought to the last two exchanges
  uint64_t answer;
  Crossing crossing;
  int listed_crossing;
};

struct Sum {
  uint64_t before;  // in threads, or blocks, of lower rank
  uint64_t total;
};

// Every thread of the block gets the best.
__device__ inline uint64_t block_best(uint64_t key, RowShared& shared) {
  for (int offset = 16; offset > 0; offset /= 2) {
    const uint64_t other = __shfl_xor_sync(~0u, key, offset);
    key = other > key ? other : key;
  }
  __syncthreads();  // all have read what the last use left in shared.warps
  if (threadIdx.x % 32 == 0) shared.warps[threadIdx.x / 32] = key;
  __syncthreads();
  key = shared.warps[threadIdx.x % 32];
  for (int offset = 16; offset > 0; offset /= 2) {
    const uint64_t other = __shfl_xor_sync(~0u, key, offset);
    key = other > key ? other : key;
  }
  return key;
}

__device__ inline uint64_t warp_inclusive_sum(uint64_t value) {
  for (int offset = 1; offset < 32; offset *= 2) {
    const uint64_t other = __shfl_up_sync(~0u, value, offset);
    if (static_cast<int>(threadIdx.x % 32) >= offset) value += other;
  }
  return value;
}

__device__ inline Sum block_sum(uint64_t value, RowShared& shared) {
  const uint64_t inclusive = warp_inclusive_sum(value);
  __syncthreads();  // all have read what the last use left in shared.warps
  if (threadIdx.x % 32 == 31) shared.warps[threadIdx.x / 32] = inclusive;
  __syncthreads();
  const uint64_t warps = warp_inclusive_sum(shared.warps[threadIdx.x % 32]);
  const int warp = threadIdx.x / 32;
  const uint64_t before = __shfl_sync(~0u, warps, warp > 0 ? warp - 1 : 0);
  return {(warp > 0 ? before : 0) + inclusive - value, __shfl_sync(~0u, warps, 31)};
}

class RowBlocks {
 public:
  // All blocks of the cluster must have started before the first exchange, so each says that it
  // has here, and the first exchange waits.
  __device__ RowBlocks(RowShared& shared, int rank, int blocks)
      : shared_(shared), rank_(rank), blocks_(blocks) {
    cluster_arrive();
  }
  __device__ void wait_for_all() { cluster_wait(); }

  __device__ bool leads() const { return rank_ == 0; }
  __device__ int threads() const { return blocks_ * kRowThreads; }

  // The following are for all threads of all blocks together, and give all the same result.

  __device__ uint64_t best(uint64_t key) {
    const uint64_t* parts = exchange(block_best(key, shared_));
    uint64_t best = 0;
    for (int i = 0; i < blocks_; ++i) best = parts[i] > best ? parts[i] : best;
    return best;
  }

  // `before` counts this thread's predecessors in all blocks.
  __device__ Sum sum(uint64_t value) {
    const Sum block = block_sum(value, shared_);
    const uint64_t* parts = exchange(block.total);
    Sum sum = {block.before, 0};
    for (int i = 0; i < blocks_; ++i) {
      if (i < rank_) sum.before += parts[i];
      sum.total += parts[i];
    }
    return sum;
  }

  // For the histogram that begins with clear().
  __device__ void clear() {
    for (int i = threadIdx.x; i < kBins; i += kRowThreads) shared_.low[i] = shared_.high[i] = 0;
    __syncthreads();
  }

  __device__ void add_one(int bin) { atomicAdd(&shared_.low[bin], 1u); }

  // All low halves first: the additions overlap.
  __device__ void add(const int (&bins)[4], const uint64_t (&values)[4]) {
    uint32_t carry[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const uint32_t low = static_cast<uint32_t>(values[j]);
      carry[j] = low > 0 && atomicAdd(&shared_.low[bins[j]], low) > ~low ? 1 : 0;
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const uint32_t high = static_cast<uint32_t>(values[j] >> 32) + carry[j];
      if (high > 0) atomicAdd(&shared_.high[bins[j]], high);
    }
  }

  // The first bin that brings the sum over all blocks' bins to `goal` > 0.
  __device__ Crossing reach(uint64_t goal) {
    meet();
    // Each block adds up a part of the bins, each thread two of them.
    const int bins = kBins / blocks_;
    const int bin = rank_ * bins + 2 * static_cast<int>(threadIdx.x);
    uint64_t first = 0, second = 0;
    if (2 * static_cast<int>(threadIdx.x) < bins) {
      for (int i = 0; i < blocks_; ++i) {
        const uint32_t* low = of_block(shared_.low, i) + bin;
        const uint32_t* high = of_block(shared_.high, i) + bin;
        first += uint64_t{high[0]} << 32 | low[0];
        second += uint64_t{high[1]} << 32 | low[1];
      }
    }
    const Sum here = sum(first + second);
    if (here.before < goal && goal - here.before <= first + second) {
      const bool in_first = goal - here.before <= first;
      const Crossing crossing = {in_first ? bin : bin + 1,
                                 in_first ? here.before : here.before + first};
      for (int i = 0; i < blocks_; ++i) *of_block(&shared_.crossing, i) = crossing;
    }
    meet();
    return here.total < goal ? Crossing{kBins, here.total} : shared_.crossing;
  }

  // To block 0's list, which the others may read again after the next meeting.
  __device__ void list(uint64_t place, uint64_t key) { of_block(shared_.list, 0)[place] = key; }

  // From one thread to all blocks, after the next meeting.
  __device__ void tell(uint64_t answer) {
    for (int i = 0; i < blocks_; ++i) *of_block(&shared_.answer, i) = answer;
  }
  __device__ uint64_t answer() const { return shared_.answer; }

  // What any thread wrote before is visible to all after.
  __device__ void meet() {
    cluster_arrive();
    cluster_wait();
  }

 private:
  // Every block's value. Two buffers take turns: who writes to one has met all others since they
  // read it.
  __device__ const uint64_t* exchange(uint64_t value) {
    turn_ ^= 1;
    uint64_t* parts = shared_.parts[turn_];
    if (static_cast<int>(threadIdx.x) < blocks_) {
      of_block(parts, static_cast<int>(threadIdx.x))[rank_] = value;
    }
    meet();
    return parts;
  }

  RowShared& shared_;
  int rank_, blocks_;
  int turn_ = 0;
};

}  // namespace skald::cuda
