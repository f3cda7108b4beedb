// A row of logits in the slices of its blocks: sums over its tokens, and searches for the token at
// which a sum over the ranking, best first, reaches a goal.
//
// A search begins with a histogram whose bins rank the tokens roughly, then sorts the tokens of the
// bin in question. Only where logits are so alike that these are too many, it goes digit by digit.
#pragma once

#include <cfloat>

#include "cuda/kernels/sample/row_blocks.cuh"

namespace skald::cuda {

inline constexpr uint64_t kAny = 1;  // below every token's key

// What a sum over tokens adds.
struct Measure {
  bool weights;       // their weights at the temperature; else 1 for each
  float temperature;  // used if weights
};
inline constexpr Measure kCount = {false, 1};

// Which tokens: those of a range of bins, and at least as good as `least`.
struct Head {
  int first_bin, last_bin;
  uint64_t least;
};

// Ranks by the distance from the best logit, 64 bins for each power of two: a row of any spread
// fills many bins. Equal logits share one, and better ones are never in a later bin.
__device__ inline int rough_bin(float logit, float best) {
  // Distances below 2^-20 are in bin 0, from 2^12 in the last.
  constexpr int kFirst = (127 - 20) << 6;
  const int bin = static_cast<int>(f32_to_bits(best - logit) >> 17) - kFirst;
  return min(max(bin, 0), kBins - 1);
}

// Of the list in block 0, by all its threads: the first place, best first, where the sum reaches
// goal(total); `count` if it never does.
template <class Goal>
__device__ int reach_in_list(RowShared& shared, int count, Measure measure, float best, Goal goal) {
  constexpr int kEach = kMostListed / kRowThreads;
  uint64_t values[kEach];
  uint64_t sum = 0;
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const int place = static_cast<int>(threadIdx.x) * kEach + i;
    values[i] = 0;
    if (place < count) {
      const float logit = logit_of_key(shared.list[place]);
      values[i] = measure.weights ? token_weight(logit, best, measure.temperature) : 1;
    }
    sum += values[i];
  }
  if (threadIdx.x == 0) shared.listed_crossing = count;
  const Sum all = block_sum(sum, shared);
  const uint64_t least = goal(all.total);
  uint64_t before = all.before;
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    if (before < least && least - before <= values[i]) {
      shared.listed_crossing = static_cast<int>(threadIdx.x) * kEach + i;
    }
    before += values[i];
  }
  __syncthreads();
  const int place = shared.listed_crossing;
  __syncthreads();
  return place;
}

// Best first: a bitonic network, which for the usual 50 candidates is 21 short steps.
__device__ inline void sort_list(RowShared& shared, int count) {
  int size = 1;
  while (size < count) size *= 2;
  for (int i = count + static_cast<int>(threadIdx.x); i < size; i += kRowThreads) {
    shared.list[i] = 0;
  }
  __syncthreads();
  for (int run = 2; run <= size; run *= 2) {
    for (int step = run / 2; step > 0; step /= 2) {
      for (int pair = threadIdx.x; pair < size / 2; pair += kRowThreads) {
        const int i = 2 * pair - (pair & (step - 1));
        const uint64_t a = shared.list[i], b = shared.list[i + step];
        const bool descending = (i & run) == 0;
        if ((a < b) == descending) shared.list[i] = b, shared.list[i + step] = a;
      }
      __syncthreads();
    }
  }
}

// Best first, of up to kMostFew: each thread finds the place of one.
__device__ inline void sort_few(RowShared& shared, int count) {
  const bool any = static_cast<int>(threadIdx.x) < count;
  const uint64_t mine = any ? shared.list[threadIdx.x] : 0;
  int better = 0;
  for (int i = 0; i < count; ++i) better += shared.list[i] > mine;
  __syncthreads();
  if (any) shared.list[better] = mine;
  __syncthreads();
}

// All threads of all blocks call each method together, and all get its result.
template <bool kInShared>
class RowSearch {
 public:
  // x: [count], this block's slice of the row, whose first token is `begin`; in shared memory count
  // is a multiple of 4 and x aligned to 16 bytes. What is there beside tokens is -inf.
  __device__ RowSearch(RowShared& shared, int rank, int blocks, float* x, int begin, int count)
      : shared_(shared), blocks_(shared, rank, blocks), x_(x), begin_(begin), count_(count) {}

  __device__ RowBlocks& blocks() { return blocks_; }

  // Before the following: the best token of the row, which weighs 1, and of each() of this thread.
  __device__ void set_best(uint64_t best, uint64_t mine) {
    best_ = logit_of_key(best);
    mine_ = mine;
  }

  // Fn(logit, id) for this thread's tokens.
  template <class Fn>
  __device__ void each(Fn fn) {
    each_four([&](const float(&logits)[4], int id) {
#pragma unroll
      for (int j = 0; j < 4; ++j) fn(logits[j], id + j);
    });
  }

  // Begins the sum of all weights, which blocks().total() waits for.
  __device__ void tell_total() {
    uint64_t sum = 0;
    each([&](float logit, int) { sum += value_of(logit, {true, 1}); });
    blocks_.tell_total(sum);
  }

  // The weight of tokens that rank at or above `least`.
  __device__ uint64_t weigh(uint64_t least, float temperature) {
    const Measure measure = {true, temperature};
    uint64_t sum = 0;
    each([&](float logit, int id) {
      if (least == kAny || rank_key(logit, id) >= least) sum += value_of(logit, measure);
    });
    return blocks_.sum(sum).total;
  }

  // The rough bin where the sum reaches the goal.
  __device__ Crossing reach_roughly(Measure measure, uint64_t goal) {
    blocks_.clear();
    each_four([&](const float(&logits)[4], int) {
      int bins[4];
      uint64_t values[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        bins[j] = rough_bin(logits[j], best_);
        values[j] = value_of(logits[j], measure);
      }
      blocks_.add(bins, values);
    });
    return blocks_.reach(goal);
  }

  // How many tokens the head has. They are in block 0's list then, unless they are too many.
  __device__ int list(const Head& head) {
    const auto in_head = [&](float logit, int id) {
      if (logit < -FLT_MAX) return false;
      const int bin = rough_bin(logit, best_);
      return bin >= head.first_bin && bin <= head.last_bin && rank_key(logit, id) >= head.least;
    };
    // Most threads have none: their best is not good enough.
    const bool any = mine_ >= head.least && rough_bin(logit_of_key(mine_), best_) <= head.last_bin;
    uint64_t mine = 0;
    if (any) each([&](float logit, int id) { mine += in_head(logit, id); });
    const Sum sum = blocks_.sum(mine);
    if (sum.total <= kMostListed && mine > 0) {
      uint64_t place = sum.before;
      each([&](float logit, int id) {
        if (in_head(logit, id)) blocks_.list(place++, rank_key(logit, id));
      });
    }
    blocks_.meet();
    return static_cast<int>(sum.total);
  }

  // The `count` best, in block 0's list, sorted, and perhaps some more.
  __device__ int list_best(int count) {
    const uint64_t least = blocks_.best_of_warps(count);
    if (least > 0) {
      const auto list_head = [&](float logit, int id) {
        const uint64_t key = rank_key(logit, id);
        if (key >= least && logit >= -FLT_MAX) blocks_.list_few(key);
      };
      if (mine_ >= least) each(list_head);
      const int listed = blocks_.few();
      if (listed <= kMostFew) {
        if (blocks_.leads()) sort_few(shared_, listed);
        return listed;
      }
    }
    const uint64_t goal = static_cast<uint64_t>(count);
    Crossing crossing = {kBins, 0};
    // Where the bests of threads are many enough, so are the tokens. A small part of the threads
    // has few tokens more than that.
    if (count <= blocks_.threads() / 8) {
      blocks_.clear();
      const float logit = logit_of_key(mine_);
      if (logit >= -FLT_MAX) blocks_.add_one(rough_bin(logit, best_));
      crossing = blocks_.reach(goal);
    }
    if (crossing.bin == kBins) crossing = reach_roughly(kCount, goal);
    int listed = list({0, crossing.bin, kAny});
    if (listed > kMostListed) listed = list({0, kBins, reach_by_digits(kCount, goal)});
    if (blocks_.leads()) sort_list(shared_, listed);
    return listed;
  }

  // The token at which the sum reaches the goal, with what reach_roughly() said; 0 if it never
  // does.
  __device__ uint64_t reach(const Crossing& crossing, Measure measure, uint64_t goal) {
    if (crossing.bin == kBins) return 0;
    const int listed = list({crossing.bin, crossing.bin, kAny});
    if (listed > kMostListed) return reach_by_digits(measure, goal);
    if (blocks_.leads()) {
      sort_list(shared_, listed);
      const int place = reach_in_list(shared_, listed, measure, best_,
                                      [&](uint64_t) { return goal - crossing.before; });
      if (threadIdx.x == 0) blocks_.tell(shared_.list[place]);
    }
    blocks_.meet();
    return blocks_.answer();
  }

 private:
  // Fn(logits of four tokens, the first id); some may be no tokens, but -inf.
  template <class Fn>
  __device__ void each_four(Fn fn) {
#pragma unroll 1
    for (int i = 4 * static_cast<int>(threadIdx.x); i < count_; i += 4 * kRowThreads) {
      float logits[4];
      if (kInShared) {
        const float4 four = *reinterpret_cast<const float4*>(x_ + i);
        logits[0] = four.x, logits[1] = four.y, logits[2] = four.z, logits[3] = four.w;
      } else {
#pragma unroll
        for (int j = 0; j < 4; ++j) logits[j] = i + j < count_ ? x_[i + j] : -INFINITY;
      }
      fn(logits, begin_ + i);
    }
  }

  // 0 if masked.
  __device__ uint64_t value_of(float logit, Measure measure) const {
    if (!measure.weights) return logit < -FLT_MAX ? 0 : 1;
    const float distance = logit - best_;
    // A division by 1 changes nothing and takes as long as any.
    return weight_units(
        exp_nonpositive(measure.temperature == 1 ? distance : distance / measure.temperature));
  }

  // reach() where the list is too short: digit by digit of the key. Slow where logits are alike,
  // because all then add to few bins.
  __device__ uint64_t reach_by_digits(Measure measure, uint64_t goal) {
    uint64_t known = 0;
    int shift = 32 + kIdBits;
#pragma unroll 1
    while (shift > 0) {
      const int above = shift;
      const int bits = shift > 30 ? 11 : 10;
      shift -= bits;
      const int last = (1 << bits) - 1;
      blocks_.clear();
      each_four([&](const float(&logits)[4], int id) {
        int bins[4];
        uint64_t values[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const uint64_t key = rank_key(logits[j], id + j);
          bins[j] = last - (static_cast<int>(key >> shift) & last);
          values[j] = key >> above == known ? value_of(logits[j], measure) : 0;
        }
        blocks_.add(bins, values);
      });
      const Crossing crossing = blocks_.reach(goal);
      if (crossing.bin == kBins) return 0;
      goal -= crossing.before;
      known = known << bits | static_cast<uint64_t>(last - crossing.bin);
    }
    return known;
  }

  RowShared& shared_;
  RowBlocks blocks_;
  float* x_;
  int begin_, count_;
  float best_ = 0;
  uint64_t mine_ = 0;
};

}  // namespace skald::cuda
