// The blocks of a cluster that share a row of logits; each has a slice of the row. They compute
// sums, the best token, and the histogram bin at which a sum reaches a goal. Sums are of integers,
// so their order does not matter.
#pragma once

#include <cstdint>

#include "cuda/kernels/device/cluster.cuh"
#include "cuda/kernels/device/ptx.cuh"
#include "cuda/kernels/sample/pick.cuh"

namespace skald::cuda {

inline constexpr int kRowThreads = 1024;
inline constexpr int kRowWarps = kRowThreads / 32;
inline constexpr int kMostRowBlocks = 8;  // the largest portable cluster
inline constexpr int kBins = 2048;
inline constexpr int kMostListed = 4096;
inline constexpr int kMostFew = kRowThreads;  // most keys that are sorted by counting

struct Crossing {
  int bin;          // bin at which the sum reaches the goal; kBins: none
  uint64_t before;  // sum of all bins before `bin`
};

// The words that all warps of all blocks have sent to this block. Warps send them straight from
// registers, and a barrier counts their bytes, so that no cluster barrier is needed.
struct RowInbox {
  uint64_t words[kMostRowBlocks * kRowWarps];  // [block, warp]
  alignas(8) uint64_t barrier;
};

// A block's shared memory, in front of its slice of the row.
struct RowShared {
  // A histogram in two halves of 32 bits, since 64-bit additions in shared memory are slow.
  uint32_t low[kBins], high[kBins];
  uint64_t list[kMostListed];  // block 0: keys of candidates
  uint64_t warps[kRowThreads / 32];
  uint64_t parts[2][kMostRowBlocks];  // values of all blocks in the last two exchanges
  uint64_t answer;
  Crossing crossing;
  int listed_crossing;
  RowInbox bests, totals;
  int few[2];  // block 0: keys from list_few() in its first and second use
  uint64_t least_few;
};

struct Sum {
  uint64_t before;  // sum over threads, or blocks, of lower rank
  uint64_t total;
};

__device__ inline uint64_t warp_inclusive_sum(uint64_t value) {
  for (int offset = 1; offset < 32; offset *= 2) {
    const uint64_t other = __shfl_up_sync(~0u, value, offset);
    if (static_cast<int>(threadIdx.x % 32) >= offset) value += other;
  }
  return value;
}

__device__ inline Sum block_sum(uint64_t value, RowShared& shared) {
  const uint64_t inclusive = warp_inclusive_sum(value);
  __syncthreads();  // all threads have read shared.warps of the last call
  if (threadIdx.x % 32 == 31) shared.warps[threadIdx.x / 32] = inclusive;
  __syncthreads();
  const uint64_t warps = warp_inclusive_sum(shared.warps[threadIdx.x % 32]);
  const int warp = threadIdx.x / 32;
  const uint64_t before = __shfl_sync(~0u, warps, warp > 0 ? warp - 1 : 0);
  return {(warp > 0 ? before : 0) + inclusive - value, __shfl_sync(~0u, warps, 31)};
}

class RowBlocks {
 public:
  // Each block arrives at the cluster's barrier here, and the first exchange waits for it: no block
  // may write to the memory of another one that has not started.
  __device__ RowBlocks(RowShared& shared, int rank, int blocks)
      : shared_(shared), rank_(rank), blocks_(blocks) {
#if __CUDA_ARCH__ >= 900
    if (blocks_ > 1 && threadIdx.x == 0) {
      for (RowInbox* inbox : {&shared_.bests, &shared_.totals}) {
        barrier_init(&inbox->barrier, 1);
        barrier_init_fence();
        expect(*inbox);
      }
    }
#endif
    if (threadIdx.x == 0) shared_.few[0] = shared_.few[1] = shared_.least_few = 0;
    cluster_arrive();
  }

  __device__ bool leads() const { return rank_ == 0; }
  __device__ int threads() const { return blocks_ * kRowThreads; }

  // All threads of all blocks call each of the following together, and all get the same result.

  __device__ uint64_t best(uint64_t key) {
    if (bests_ > 0) {
      synchronize();  // all have read the words of the last call
#if __CUDA_ARCH__ >= 900
      if (blocks_ > 1 && threadIdx.x == 0) expect(shared_.bests);
#endif
    } else {
      cluster_wait();
    }
    send_to_all(shared_.bests, warp_best(key));
    wait(shared_.bests, bests_++ & 1);
    uint64_t best = 0;
    for (int i = static_cast<int>(threadIdx.x) % 32; i < blocks_ * kRowWarps; i += 32) {
      best = shared_.bests.words[i] > best ? shared_.bests.words[i] : best;
    }
    return warp_best(best);
  }

  // The key at rank `place` among the warps' best keys, so at least `place` tokens have this key or
  // a better one. 0 if `place` is more than about half the number of warps.
  __device__ uint64_t best_of_warps(int place) {
    const int warps = blocks_ * kRowWarps;
    if (again_) {
      if (threadIdx.x == 0) shared_.least_few = 0;
      synchronize();  // block 0 has read its list
    }
    again_ = true;
    if (2 * place > warps + kRowWarps / 2) return 0;
    if (static_cast<int>(threadIdx.x) < warps) {
      const uint64_t mine = shared_.bests.words[threadIdx.x];
      int better = 0;
      for (int i = 0; i < warps; ++i) better += shared_.bests.words[i] > mine;
      // Two keys are equal only if two warps have no token left.
      if (better == place - 1) shared_.least_few = mine;
    }
    __syncthreads();
    return shared_.least_few;
  }

  // Begins a sum over all threads; total() waits for the sum. May be used once.
  __device__ void send_total(uint64_t value) {
    send_to_all(shared_.totals, skald::cuda::warp_sum(value));
  }
  __device__ uint64_t total() {
    wait(shared_.totals, 0);
    uint64_t sum = 0;
    for (int i = static_cast<int>(threadIdx.x) % 32; i < blocks_ * kRowWarps; i += 32) {
      sum += shared_.totals.words[i];
    }
    return skald::cuda::warp_sum(sum);
  }

  // `before` is the sum over this thread's predecessors in all blocks.
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

  // Begins a histogram.
  __device__ void clear() {
    for (int i = threadIdx.x; i < kBins; i += kRowThreads) shared_.low[i] = shared_.high[i] = 0;
    __syncthreads();
  }

  __device__ void add_one(int bin) { atomicAdd(&shared_.low[bin], 1u); }

  // Adds to the histogram. All low halves come first, so that the additions overlap.
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

  // The first bin at which the sum over all blocks' bins reaches `goal` > 0.
  __device__ Crossing reach(uint64_t goal) {
    synchronize();
    // Each block adds up a share of the bins, each thread two of them.
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
    synchronize();
    return here.total < goal ? Crossing{kBins, here.total} : shared_.crossing;
  }

  // Appends a key to block 0's list, in any order. few() is the number of keys appended; the list
  // keeps at most kMostFew of them. Both may be used twice.
  __device__ void list_few(uint64_t key) {
    const int place = atomicAdd(of_block(&shared_.few[fews_], 0), 1);
    if (place < kMostFew) of_block(shared_.list, 0)[place] = key;
  }
  __device__ int few() {
    synchronize();
    const int count = *of_block(&shared_.few[fews_++], 0);
    synchronize();  // block 0 does not exit before all have read it
    return count;
  }

  // Stores a key in block 0's list. Other threads may read the key after the next barrier.
  __device__ void list(uint64_t place, uint64_t key) { of_block(shared_.list, 0)[place] = key; }

  // Sends an answer from one thread to all blocks. All have it after the next barrier.
  __device__ void send_answer(uint64_t answer) {
    for (int i = 0; i < blocks_; ++i) *of_block(&shared_.answer, i) = answer;
  }
  __device__ uint64_t answer() const { return shared_.answer; }

  // The cluster's barrier. Writes before it are visible to all threads after it.
  __device__ void synchronize() {
    cluster_arrive();
    cluster_wait();
  }

 private:
  // Sends a value of each block to all blocks, and returns the values of all. Two buffers
  // alternate. So a block overwrites a buffer only after a barrier that all blocks reach once they
  // have read it.
  __device__ const uint64_t* exchange(uint64_t value) {
    buffer_ ^= 1;
    uint64_t* parts = shared_.parts[buffer_];
    if (static_cast<int>(threadIdx.x) < blocks_) {
      of_block(parts, static_cast<int>(threadIdx.x))[rank_] = value;
    }
    synchronize();
    return parts;
  }

  __device__ void expect(RowInbox& inbox) {
#if __CUDA_ARCH__ >= 900
    barrier_expect_bytes(&inbox.barrier, blocks_ * kRowWarps * sizeof(uint64_t));
#endif
  }

  // Sends a word of each warp to every block.
  __device__ void send_to_all(RowInbox& inbox, uint64_t word) {
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
    uint64_t* const place = &inbox.words[rank_ * kRowWarps + warp];
    if (blocks_ == 1) {
      if (lane == 0) *place = word;
      return;
    }
    if (lane < blocks_) send_word(place, word, &inbox.barrier, lane);
  }

  __device__ void wait(RowInbox& inbox, unsigned parity) {
    if (blocks_ == 1) {
      __syncthreads();
      return;
    }
    receive(&inbox.barrier, parity);
  }

  RowShared& shared_;
  int rank_, blocks_;
  int buffer_ = 0;
  unsigned bests_ = 0;  // calls of best()
  int fews_ = 0;        // calls of few()
  bool again_ = false;  // whether best_of_warps() was called
};

}  // namespace skald::cuda
