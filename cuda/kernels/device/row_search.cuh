// A row of logits in the slices of its blocks: sums over its tokens, and searches for the token at
// which a sum over the ranking, best first, reaches a goal.
//
// A search begins with a histogram whose bins rank the tokens roughly, then sorts the tokens of the
// bin in question. Only where logits are so alike that these are too many, it goes digit by digit.
#pragma once

#include <cfloat>

#include "cuda/kernels/device/row_blocks.cuh"

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
        const int i = pair / step * 2 * step + pair % step;
        const uint64_t a = shared.list[i], b = shared.list[i + step];
        const bool descending = (i & run) == 0;
        if ((a < b) == descending) shared.list[i] = b, shared.list[i + step] = a;
      }
      __syncthreads();
    }
  }
}

// All threads of all blocks call each method together, and all get its result.
class RowSearch {
 public:
  // x: [count], this block's slice of the row, whose first token is `begin`.
  __device__ RowSearch(RowShared& shared, int rank, int blocks, float* x, int begin, int count)
      : shared_(shared), blocks_(shared, rank, blocks), x_(x), begin_(begin), count_(count) {}

  __device__ RowBlocks& blocks() { return blocks_; }

  // The largest logit, which weighs 1. The following need it.
  __device__ void set_best(float best) { best_ = best; }

  // Fn(logit, id) for this thread's tokens.
  template <class Fn>
  __device__ void each(Fn fn) {
#pragma unroll 1
    for (int i = threadIdx.x; i < count_; i += kRowThreads) fn(x_[i], begin_ + i);
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
    each([&](float logit, int) {
      if (logit < -FLT_MAX) return;
      const uint64_t value = value_of(logit, measure);
      if (value > 0) blocks_.add(rough_bin(logit, best_), value);
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
    uint64_t mine = 0;
    each([&](float logit, int id) { mine += in_head(logit, id); });
    const Sum sum = blocks_.sum(mine);
    if (sum.total <= kMostListed) {
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
    const uint64_t goal = static_cast<uint64_t>(count);
    const Crossing crossing = reach_roughly(kCount, goal);
    int listed = list({0, crossing.bin, kAny});
    if (listed > kMostListed) listed = list({0, kBins, reach_by_digits(kCount, goal)});
    if (blocks_.leads()) sort_list(shared_, listed);
    return listed;
  }

  // The token at which the sum reaches the goal; 0 if it never does.
  __device__ uint64_t reach(Measure measure, uint64_t goal) {
    const Crossing crossing = reach_roughly(measure, goal);
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
  __device__ uint64_t value_of(float logit, Measure measure) const {
    if (!measure.weights) return 1;
    const float distance = logit - best_;
    // A division by 1 changes nothing and takes as long as any.
    return weight_units(
        exp_nonpositive(measure.temperature == 1 ? distance : distance / measure.temperature));
  }

  // The token at which the sum reaches the goal, 0 if it never does: digit by digit of its key.
  // Slow where logits are alike, because all then add to few bins; reach() asks only if it must.
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
      each([&](float logit, int id) {
        const uint64_t key = rank_key(logit, id);
        if (logit < -FLT_MAX || key >> above != known) return;
        const uint64_t value = value_of(logit, measure);
        const int digit = static_cast<int>(key >> shift) & last;
        if (value > 0) blocks_.add(last - digit, value);
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
};

}  // namespace skald::cuda
