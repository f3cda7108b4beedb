// A block of attention_wide, whose file says how work is divided: its run of tokens, its shared
// memory, and the way from queries and tiles of tokens to sums of values.
#pragma once

#include "cuda/kernels/attention/attention.h"
#include "cuda/kernels/attention/attention_split.h"
#include "cuda/kernels/attention/kv_page.cuh"
#include "cuda/kernels/attention/sink.cuh"
#include "cuda/kernels/device/cluster.cuh"
#include "cuda/kernels/device/launch.cuh"
#include "cuda/kernels/device/mma.cuh"

namespace skald::cuda {

inline constexpr int kWideWarps = 8, kWideThreads = kWideWarps * 32;
inline constexpr int kWideSide = 16;  // of the matrices that products take
inline constexpr int kWidePad =
    8;  // numbers between rows in shared memory: they lie in other banks
inline constexpr int kWideScoreCols = kWideKeys + 4, kWideWeightCols = kWideKeys + kWidePad;
inline constexpr int kMostWideColumns =
    (kMaxHeadDim / kWideSide + kWideWarps - 1) / kWideWarps;  // groups of 16 columns of a warp

// kTiles: groups of 16 queries of a block. Warps that share the scores of a group of queries divide
// its keys by two and the dimensions by kParts.
template <int kTiles>
struct WideSizes {
  static constexpr int kQueries = kTiles * kWideSide;
  static constexpr int kParts = kWideWarps / (kTiles * 2);

  __host__ __device__ static constexpr int64_t tile_bytes(int dim, bool serves) {
    return int64_t{kWideKeys} * (dim + kWidePad) * 2 * (serves ? 1 : 2);
  }
  __host__ __device__ static constexpr int64_t query_bytes(int dim) {
    return int64_t{kQueries} * (dim + kWidePad) * 2;
  }
  static constexpr int64_t kScoreBytes = int64_t{kParts} * kQueries * kWideScoreCols * 4;
  static constexpr int64_t kWeightBytes = int64_t{kQueries} * kWideWeightCols * 2;
  static constexpr int64_t bytes(int dim, bool serves, int stages) {
    return query_bytes(dim) + stages * tile_bytes(dim, serves) + kScoreBytes + kWeightBytes;
  }
};

#if SKALD_HAS_MMA

// A query's share of the keys: tokens [begin, end) of a row.
struct WideRun {
  int begin, end;

  // Run `run` of a row that sees tokens [start, position].
  __device__ static WideRun of(int start, int position, int runs, int run) {
    const int length = length_of(start, position, runs), first = start / kWideKeys * kWideKeys;
    return {first + run * length, min(first + (run + 1) * length, position + 1)};
  }
  // Runs that have a token.
  __device__ static int used(int start, int position, int runs) {
    const int length = length_of(start, position, runs);
    return (position + 1 - start / kWideKeys * kWideKeys + length - 1) / length;
  }

 private:
  __device__ static int length_of(int start, int position, int runs) {
    const int tiles = (position + 1 - start / kWideKeys * kWideKeys + kWideKeys - 1) / kWideKeys;
    return (tiles + runs - 1) / runs * kWideKeys;
  }
};

// A partial result of a run: the sums of a query, and its maximum and total.
__device__ inline float* wide_sums(const AttentionLaunch& a, int runs, int64_t row_head, int run) {
  return a.decode.workspace + (row_head * runs + run) * a.spec.head_dim;
}
__device__ inline float2* wide_totals(const AttentionLaunch& a, int runs, int64_t row_head) {
  float* behind = a.decode.workspace + int64_t{a.rows} * a.spec.heads * runs * a.spec.head_dim;
  return reinterpret_cast<float2*>(behind) + row_head * runs;
}

// The queries of a block: those from `first` on of a tile of rows, among those of one KV head.
struct WideQueries {
  AttentionTile tile;
  int kv_head, first;
};

template <class T, int kTiles, bool kServes, int kStages>
class WideBlock {
 public:
  using Sizes = WideSizes<kTiles>;
  static constexpr int kQueries = Sizes::kQueries, kParts = Sizes::kParts;
  static constexpr int kLanes = kWideThreads / kQueries;  // threads of a query's weights

  // `factors`: [kQueries], in shared memory.
  __device__ WideBlock(const AttentionLaunch& a, const WideQueries& of, char* memory,
                       float* factors)
      : a_(a),
        tile_(of.tile),
        kv_head_(of.kv_head),
        first_(of.first),
        group_(a.spec.heads / a.spec.kv_heads),
        all_(of.tile.rows * group_),
        dim_(a.spec.head_dim),
        stride_(dim_ + kWidePad),
        pages_(pages_of(a, of.tile.row)),
        queries_(reinterpret_cast<T*>(memory)),
        keys_(queries_ + kQueries * stride_),
        scores_(reinterpret_cast<float*>(memory + Sizes::query_bytes(dim_) +
                                         kStages * Sizes::tile_bytes(dim_, kServes))),
        weights_(reinterpret_cast<T*>(scores_ + Sizes::kScoreBytes / 4)),
        factors_(factors) {
    const int thread = static_cast<int>(threadIdx.x);
    own_ = thread / kLanes;
    own_position_ = first_ + own_ < all_ ? a.step.positions[row_of(own_)] : -1;
    own_start_ = window_start(a.spec, own_position_);
  }

  // The tokens that the block's queries see.
  __device__ int start() const { return window_start(a_.spec, a_.step.positions[row_of(0)]); }
  __device__ int last() const {
    return a_.step.positions[row_of(min(kQueries, all_ - first_) - 1)];
  }

  // Fetches tiles that the launch does not change, and waits for the kernel ahead. Returns how many
  // tiles are fetched.
  __device__ int prefetch(WideRun run) const {
    int fetched = 0;
    if (a_.decode.depth > 0 && !a_.decode.after_append) {
      while (fetched < kStages - 1 && run.begin + (fetched + 1) * kWideKeys <= last()) {
        fetch(run, fetched++);
      }
    }
    wait_for_kernel_ahead();
    return fetched;
  }

  __device__ void attend(WideRun run) {
    int fetched = prefetch(run);
    if (run.begin >= run.end) return;
    load_queries();
    const int tiles = (run.end - run.begin + kWideKeys - 1) / kWideKeys;
    for (; fetched < kStages - 1; ++fetched) fetch(run, fetched);
    for (int i = 0; i < tiles; ++i) {
      if constexpr (kStages == 1) {
        __syncthreads();  // nobody reads the tile before
        fetch(run, i);
      }
      wait_for_copies<kStages == 1 ? 0 : kStages - 2>();
      __syncthreads();  // the tile is there, and nobody reads the one before it
      if constexpr (kStages > 1) fetch(run, i + kStages - 1);
      const T* keys = keys_ + i % kStages * stage_numbers();
      score(keys);
      __syncthreads();
      weigh(run, run.begin + i * kWideKeys);
      __syncthreads();
      sum(kServes ? keys : keys + kWideKeys * stride_);
    }
    wait_for_copies<0>();
  }

  // Adds up the results of the first `used` blocks of the cluster; each block has a share of the
  // columns. `totals`: [kQueries], in shared memory.
  __device__ void merge_cluster(int used, float2* totals) {
    const int thread = static_cast<int>(threadIdx.x), blocks = cluster_blocks();
    auto* const sums = reinterpret_cast<float*>(queries_);  // nobody reads queries and tiles now
    __syncthreads();
    if (thread % kLanes == 0) totals[own_] = {maximum_, total_};
    each([&](int query, int column, float x, float y) {
      *reinterpret_cast<float2*>(sums + query * dim_ + column) = make_float2(x, y);
    });
    cluster_arrive();
    cluster_wait();
    const int fours = dim_ / 4, units = min(kQueries, all_ - first_) * fours;
    for (int unit = static_cast<int>(blockIdx.x) * kWideThreads + thread; unit < units;
         unit += blocks * kWideThreads) {
      const int query = unit / fours, column = unit % fours * 4;
      float2 of_run[kMaxCluster];
      float maximum = -INFINITY;
#pragma unroll
      for (int run = 0; run < kMaxCluster; ++run) {
        of_run[run] = run < used ? *of_block(totals + query, run) : make_float2(-INFINITY, 0);
        maximum = fmaxf(maximum, of_run[run].x);
      }
      float total = sink_weight(a_, head_of(query), maximum);
      float4 sum = {0, 0, 0, 0};
#pragma unroll
      for (int run = 0; run < kMaxCluster; ++run) {
        if (run >= used) break;
        const float factor = exp2_fast(of_run[run].x - maximum);
        const float4 x =
            *reinterpret_cast<const float4*>(of_block(sums + query * dim_ + column, run));
        total = fmaf(factor, of_run[run].y, total);
        sum.x = fmaf(factor, x.x, sum.x), sum.y = fmaf(factor, x.y, sum.y);
        sum.z = fmaf(factor, x.z, sum.z), sum.w = fmaf(factor, x.w, sum.w);
      }
      T* out = static_cast<T*>(a_.out) +
               (int64_t{row_of(query)} * a_.spec.heads + head_of(query)) * dim_ + column;
      *reinterpret_cast<uint2*>(out) = {pack_finite(sum.x / total, sum.y / total),
                                        pack_finite(sum.z / total, sum.w / total)};
    }
    cluster_arrive_relaxed();
    cluster_wait();  // no block ends while others read its memory
  }

  // Divides by the sum of weights, the sink's included.
  __device__ void store() {
    // A query beyond the tile's has no weights.
    leave(1 / (total_ + (own_position_ < 0 ? 1 : sink_weight(a_, head_of(own_), maximum_))));
    each([&](int query, int column, float x, float y) {
      T* out = static_cast<T*>(a_.out) +
               (int64_t{row_of(query)} * a_.spec.heads + head_of(query)) * dim_ + column;
      *reinterpret_cast<uint32_t*>(out) = pack_finite(x * factors_[query], y * factors_[query]);
    });
  }

  // Leaves the sums of a run for merge_wide.
  __device__ void store_part(int runs, int run) {
    const int thread = static_cast<int>(threadIdx.x);
    if (thread % kLanes == 0 && first_ + own_ < all_) {
      wide_totals(a_, runs, int64_t{row_of(own_)} * a_.spec.heads + head_of(own_))[run] = {maximum_,
                                                                                           total_};
    }
    each([&](int query, int column, float x, float y) {
      float* to = wide_sums(a_, runs, int64_t{row_of(query)} * a_.spec.heads + head_of(query), run);
      *reinterpret_cast<float2*>(to + column) = make_float2(x, y);
    });
  }

 private:
  __device__ int row_of(int query) const { return tile_.row + (first_ + query) / group_; }
  __device__ int head_of(int query) const { return kv_head_ * group_ + (first_ + query) % group_; }
  __device__ int64_t stage_numbers() const { return Sizes::tile_bytes(dim_, kServes) / 2; }

  __device__ static uint32_t pack_finite(float x, float y) {
    const Pack<T, 2> two = {{from_float<T>(x), from_float<T>(y)}};
    return *reinterpret_cast<const uint32_t*>(&two);
  }

  __device__ void load_queries() {
    const int eights = dim_ / 8;
    for (int i = threadIdx.x; i < kQueries * eights; i += kWideThreads) {
      const int query = i / eights, at = i % eights * 8;
      uint4 some = {0, 0, 0, 0};
      if (first_ + query < all_) {
        const T* from = static_cast<const T*>(a_.qkv) +
                        (int64_t{row_of(query)} * row_heads(a_) + head_of(query)) * dim_ + at;
        some = *reinterpret_cast<const uint4*>(from);
      }
      *reinterpret_cast<uint4*>(queries_ + query * stride_ + at) = some;
    }
  }

  // Begins to copy tile i of the run, which lies in one page. Tokens beyond the run become zeros.
  __device__ void fetch(WideRun run, int i) const {
    static_assert(kPageTokens % kWideKeys == 0);
    const int begin = run.begin + i * kWideKeys, eights = dim_ / 8;
    if (begin < run.end) {
      const T* from = page_keys<T>(a_, pages_[begin / kPageTokens], kv_head_) +
                      int64_t{begin % kPageTokens} * dim_;
      T* to = keys_ + i % kStages * stage_numbers();
      int key = static_cast<int>(threadIdx.x) / eights, at = static_cast<int>(threadIdx.x) % eights;
      for (int piece = threadIdx.x; piece < kWideKeys * eights; piece += kWideThreads) {
        const bool valid = begin + key < run.end;
        T* place = to + key * stride_ + at * 8;
        copy_async(shared_address(place), from + piece * 8, valid);
        if constexpr (!kServes) {
          copy_async(shared_address(place + kWideKeys * stride_),
                     from + keys_to_values(a_.spec) + piece * 8, valid);
        }
        for (at += kWideThreads; at >= eights; at -= eights) ++key;
      }
    }
    commit_copies();
  }

  // Scores of all queries and keys, in kParts sums. A warp has 16 queries and 16 keys.
  __device__ void score(const T* keys) {
    const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
    const int tile = warp % kTiles, half = warp / kTiles % 2, part = warp / kTiles / 2;
    const int steps = dim_ / kWideSide, begin = steps * part / kParts;
    const int end = steps * (part + 1) / kParts;
    const uint32_t left = shared_address(queries_ + (tile * kWideSide + lane % 16) * stride_ +
                                         lane / 16 * 8 + begin * kWideSide);
    const uint32_t right =
        shared_address(keys + (half * kWideSide + lane / 16 * 8 + lane % 8) * stride_ +
                       lane / 8 % 2 * 8 + begin * kWideSide);
    float sums[2][2][4] = {};  // of even and odd steps, so that products wait for fewer others
    const auto multiply = [&](int step, float(&to)[2][4]) {
      uint32_t q[4], k[4];
      load_matrices(q, left + step * kWideSide * 2);
      load_matrices(k, right + step * kWideSide * 2);
      mma(T(), to[0], q, k[0], k[1]);
      mma(T(), to[1], q, k[2], k[3]);
    };
    int step = 0;
#pragma unroll 2
    for (; step + 1 < end - begin; step += 2) {
      multiply(step, sums[0]);
      multiply(step + 1, sums[1]);
    }
    if (step < end - begin) multiply(step, sums[0]);
    const int g = lane / 4, c = lane % 4;
    float* to = scores_ + (part * kQueries + tile * kWideSide + g) * kWideScoreCols +
                half * kWideSide + 2 * c;
#pragma unroll
    for (int eight = 0; eight < 2; ++eight) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        *reinterpret_cast<float2*>(to + i * 8 * kWideScoreCols + eight * 8) =
            make_float2(sums[0][eight][2 * i] + sums[1][eight][2 * i],
                        sums[0][eight][2 * i + 1] + sums[1][eight][2 * i + 1]);
      }
    }
  }

  // Weights of the tile's keys, which begin at token `begin`, relative to the largest score so far;
  // factors_: by how much earlier sums shrink.
  __device__ void weigh(WideRun run, int begin) {
    const int lane = static_cast<int>(threadIdx.x) % kLanes;
    const AttentionSpec& s = a_.spec;
    float mine[kWideKeys / kLanes], higher = maximum_;
#pragma unroll
    for (int i = 0; i < kWideKeys / kLanes; ++i) {
      const int key = lane + i * kLanes, token = begin + key;
      float score = 0;
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
        score += scores_[(part * kQueries + own_) * kWideScoreCols + key];
      }
      score *= s.scale * kLog2E;
      if (s.softcap != 0) score = soft_capped(score, s.softcap);
      const bool seen = token <= own_position_ && token >= own_start_ && token < run.end;
      mine[i] = seen ? score : -INFINITY;
      higher = fmaxf(higher, mine[i]);
    }
#pragma unroll
    for (int lanes = kLanes / 2; lanes > 0; lanes /= 2) {
      higher = fmaxf(higher, __shfl_xor_sync(~0u, higher, lanes));
    }
    const float base = higher > -INFINITY ? higher : 0;
    const float kept = exp2_fast(maximum_ - base);
    float sum = 0;
#pragma unroll
    for (int i = 0; i < kWideKeys / kLanes; ++i) {
      const float weight = exp2_fast(mine[i] - base);
      sum += weight;
      weights_[own_ * kWideWeightCols + lane + i * kLanes] = from_float<T>(weight);
    }
#pragma unroll
    for (int lanes = kLanes / 2; lanes > 0; lanes /= 2) {
      sum += __shfl_xor_sync(~0u, sum, lanes);
    }
    total_ = total_ * kept + sum;
    maximum_ = higher;
    if (lane == 0) factors_[own_] = kept;
  }

  // Adds weights times values. A warp has every kWideWarps-th group of 16 columns.
  __device__ void sum(const T* values) {
    const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
    uint32_t left[kTiles][kWideKeys / kWideSide][4];
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
      for (int step = 0; step < kWideKeys / kWideSide; ++step) {
        load_matrices(left[tile][step],
                      shared_address(weights_ + (tile * kWideSide + lane % 16) * kWideWeightCols +
                                     step * kWideSide + lane / 16 * 8));
      }
    }
    const uint32_t right =
        shared_address(values + lane % 16 * stride_ + lane / 16 * 8 + warp * kWideSide);
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      const float kept[2] = {factors_[tile * kWideSide + lane / 4],
                             factors_[tile * kWideSide + lane / 4 + 8]};
#pragma unroll
      for (int i = 0; i < kMostWideColumns; ++i) {
#pragma unroll
        for (int x = 0; x < 8; ++x) out_[tile][i][x / 4][x % 4] *= kept[x % 4 / 2];
      }
    }
#pragma unroll
    for (int i = 0; i < kMostWideColumns; ++i) {
      if ((warp + i * kWideWarps) * kWideSide >= dim_) break;
#pragma unroll
      for (int step = 0; step < kWideKeys / kWideSide; ++step) {
        uint32_t v[4];
        load_matrices_transposed(
            v, right + (step * kWideSide * stride_ + i * kWideWarps * kWideSide) * 2);
#pragma unroll
        for (int tile = 0; tile < kTiles; ++tile) {
          mma(T(), out_[tile][i][0], left[tile][step], v[0], v[1]);
          mma(T(), out_[tile][i][1], left[tile][step], v[2], v[3]);
        }
      }
    }
  }

  // All threads get their queries' factors.
  __device__ void leave(float factor) {
    __syncthreads();
    if (threadIdx.x % kLanes == 0) factors_[own_] = factor;
    __syncthreads();
  }

  // Calls fn with each pair of neighbouring results that the thread has.
  template <class Fn>
  __device__ void each(const Fn& fn) const {
    const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int query = tile * kWideSide + half * 8 + lane / 4;
        if (first_ + query >= all_) continue;
#pragma unroll
        for (int i = 0; i < kMostWideColumns; ++i) {
          const int column = (warp + i * kWideWarps) * kWideSide + lane % 4 * 2;
          if ((warp + i * kWideWarps) * kWideSide >= dim_) break;
#pragma unroll
          for (int eight = 0; eight < 2; ++eight) {
            fn(query, column + eight * 8, out_[tile][i][eight][2 * half],
               out_[tile][i][eight][2 * half + 1]);
          }
        }
      }
    }
  }

  const AttentionLaunch& a_;
  AttentionTile tile_;
  int kv_head_, first_, group_, all_, dim_;
  int64_t stride_;
  const int32_t* pages_;
  T *queries_, *keys_;
  float* scores_;
  T* weights_;
  float* factors_;
  int own_, own_position_, own_start_;  // of the query whose weights the thread computes
  float maximum_ = -INFINITY, total_ = 0;
  float out_[kTiles][kMostWideColumns][2][4] = {};
};

#endif

}  // namespace skald::cuda
