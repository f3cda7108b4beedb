// Searches in a row of logits whose slices lie in the blocks of a cluster: sums over tokens, and
// the token at which a sum over the ranking, best first, reaches a goal.
//
// A search begins with a histogram whose bins rank the tokens roughly. Then it sorts the tokens of
// the bin in which the goal lies. If logits are so alike that the bin has too many tokens, it
// searches digit by digit.
#pragma once

#include <cfloat>

#include "cuda/kernels/sample/row_blocks.cuh"

namespace skald::cuda {

inline constexpr uint64_t kAny = 1;  // lower than every token's key

// What a sum adds for each token.
struct Measure {
  bool weights;       // sum weights at `temperature`; false: count tokens
  float temperature;  // used if weights
};
inline constexpr Measure kCount = {false, 1};

// The tokens in a range of bins whose keys are at least `least`.
struct Head {
  int first_bin, last_bin;
  uint64_t least;
};

// Ranks tokens by their distance from the best logit, with 64 bins for each power of two, so that a
// row of any spread fills many bins. Equal logits share a bin; a better logit is never in a later
// bin.
__device__ inline int rough_bin(float logit, float best) {
  // Distances below 2^-20 are in bin 0, distances from 2^12 on in the last bin.
  constexpr int kFirst = (127 - 20) << 6;
  const int bin = static_cast<int>(f32_to_bits(best - logit) >> 17) - kFirst;
  return min(max(bin, 0), kBins - 1);
}

// The first place in block 0's sorted list at which the sum reaches goal(total), or `count` if
// there is none. All threads of block 0 call it.
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

// Sorts block 0's list, best first, by a bitonic network: 21 short steps for the usual 50
// candidates.
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

// Sorts a list of up to kMostFew keys, best first: each thread finds the place of one key.
__device__ inline void sort_few(RowShared& shared, int count) {
  const bool any = static_cast<int>(threadIdx.x) < count;
  const uint64_t mine = any ? shared.list[threadIdx.x] : 0;
  int better = 0;
  for (int i = 0; i < count; ++i) better += shared.list[i] > mine;
  __syncthreads();
  if (any) shared.list[better] = mine;
  __syncthreads();
}

// All threads of all blocks call each method together, and all get the same result.
template <bool kInShared>
class RowSearch {
 public:
  // x: [count], this block's slice of the row, whose first token is `begin`. In shared memory count
  // is a multiple of 4 and x is aligned to 16 bytes. Places without a token hold -inf.
  __device__ RowSearch(RowShared& shared, int rank, int blocks, float* x, int begin, int count)
      : shared_(shared), blocks_(shared, rank, blocks), x_(x), begin_(begin), count_(count) {}

  __device__ RowBlocks& blocks() { return blocks_; }

  // Must be called before the functions below. `best` is the key of the row's best token, which
  // weighs 1; `mine` is the best key among this thread's tokens.
  __device__ void set_best(uint64_t best, uint64_t mine) {
    best_ = logit_of_key(best);
    own_key_ = mine;
  }

  // Calls fn(logit, id) for each of this thread's tokens.
  template <class Fn>
  __device__ void each(Fn fn) {
    each_four([&](const float(&logits)[4], int id) {
#pragma unroll
      for (int j = 0; j < 4; ++j) fn(logits[j], id + j);
    });
  }

  // Begins the sum of all weights; blocks().total() waits for it.
  __device__ void send_total() {
    uint64_t sum = 0;
    each([&](float logit, int) { sum += value_of(logit, {true, 1}); });
    blocks_.send_total(sum);
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

  // The rough bin at which the sum reaches the goal.
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

  // The number of tokens in the head. Block 0's list has them afterwards, unless there are too
  // many.
  __device__ int list(const Head& head) {
    const auto in_head = [&](float logit, int id) {
      if (logit < -FLT_MAX) return false;
      const int bin = rough_bin(logit, best_);
      return bin >= head.first_bin && bin <= head.last_bin && rank_key(logit, id) >= head.least;
    };
    // Most threads have no token in the head: their best key is too low.
    const bool any =
        own_key_ >= head.least && rough_bin(logit_of_key(own_key_), best_) <= head.last_bin;
    uint64_t mine = 0;
    if (any) each([&](float logit, int id) { mine += in_head(logit, id); });
    const Sum sum = blocks_.sum(mine);
    if (sum.total <= kMostListed && mine > 0) {
      uint64_t place = sum.before;
      each([&](float logit, int id) {
        if (in_head(logit, id)) blocks_.list(place++, rank_key(logit, id));
      });
    }
    blocks_.synchronize();
    return static_cast<int>(sum.total);
  }

  // Puts the `count` best tokens, and perhaps some more, into block 0's list, sorted.
  __device__ int list_best(int count) {
    const uint64_t least = blocks_.best_of_warps(count);
    if (least > 0) {
      const auto list_head = [&](float logit, int id) {
        const uint64_t key = rank_key(logit, id);
        if (key >= least && logit >= -FLT_MAX) blocks_.list_few(key);
      };
      if (own_key_ >= least) each(list_head);
      const int listed = blocks_.few();
      if (listed <= kMostFew) {
        if (blocks_.leads()) sort_few(shared_, listed);
        return listed;
      }
    }
    const uint64_t goal = static_cast<uint64_t>(count);
    Crossing crossing = {kBins, 0};
    // A histogram of the threads' best tokens alone. If the upper bins have `count` of them, the
    // row has `count` tokens in these bins. If `count` is small compared with the number of
    // threads, these bins have few tokens more than `count`.
    if (count <= blocks_.threads() / 8) {
      blocks_.clear();
      const float logit = logit_of_key(own_key_);
      if (logit >= -FLT_MAX) blocks_.add_one(rough_bin(logit, best_));
      crossing = blocks_.reach(goal);
    }
    if (crossing.bin == kBins) crossing = reach_roughly(kCount, goal);
    int listed = list({0, crossing.bin, kAny});
    if (listed > kMostListed) listed = list({0, kBins, reach_by_digits(kCount, goal)});
    if (blocks_.leads()) sort_list(shared_, listed);
    return listed;
  }

  // The token at which the sum reaches the goal, or 0 if there is none. `crossing` is the result of
  // reach_roughly().
  __device__ uint64_t reach(const Crossing& crossing, Measure measure, uint64_t goal) {
    if (crossing.bin == kBins) return 0;
    const int listed = list({crossing.bin, crossing.bin, kAny});
    if (listed > kMostListed) return reach_by_digits(measure, goal);
    if (blocks_.leads()) {
      sort_list(shared_, listed);
      const int place = reach_in_list(shared_, listed, measure, best_,
                                      [&](uint64_t) { return goal - crossing.before; });
      if (threadIdx.x == 0) blocks_.send_answer(shared_.list[place]);
    }
    blocks_.synchronize();
    return blocks_.answer();
  }

 private:
  // Calls fn(logits of four tokens, the first id). Places without a token give -inf.
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

  // What a token adds to the sum: 1 or its weight; 0 if it is masked.
  __device__ uint64_t value_of(float logit, Measure measure) const {
    if (!measure.weights) return logit < -FLT_MAX ? 0 : 1;
    const float distance = logit - best_;
    // A division by 1 changes nothing and takes as long as any other.
    return weight_units(
        exp_nonpositive(measure.temperature == 1 ? distance : distance / measure.temperature));
  }

  // reach() for more tokens than the list holds: searches digit by digit of the key. Slow if logits
  // are alike, because all tokens then add to few bins.
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
  uint64_t own_key_ = 0;
};

}  // namespace skald::cuda
