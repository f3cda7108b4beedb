// How attention divides a step's work among blocks. Kernels use it, and plans on the host.
// attention_decode.cu, attention_prefill.cu and attention_wide.cu say what a block does.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cuda/kernels/attention/attention.h"

namespace skald::cuda {

// ---- Decode ----

inline constexpr int kStrip = 16;      // tokens that a warp takes at a time
inline constexpr int kRunUnit = 64;    // tokens; a run's length is a multiple of it
inline constexpr int kTileHeads = 8;   // query heads of a block
inline constexpr int kMaxCluster = 8;  // blocks
inline constexpr int kResident = 3;    // blocks of a multiprocessor; its registers allow no more
// Blocks of a multiprocessor that have a ring in shared memory.
inline constexpr int kMostResident = 4;
inline constexpr int kOneClusterRun = 128;  // tokens; runs may grow to it to stay in one cluster

// decode_depth() gives kLeastDepth times a power of kDepthFactor.
inline constexpr int64_t kLeastDepth = int64_t{kMaxCluster} * kOneClusterRun, kDepthFactor = 4;
inline constexpr int64_t kMostDepth = (int64_t{1} << 31) - kRunUnit;

inline int head_tiles(const AttentionSpec& s) {
  return (s.heads / s.kv_heads + kTileHeads - 1) / kTileHeads;
}

// What one cluster stores for merging, for each dimension of a padded head: 4 sums, a maximum and a
// total for each head and 4 dimensions.
inline constexpr int kPartFloats = kTileHeads / 4 * 6;

// The most tokens that a row sees in a sequence of `depth` tokens. A window may begin in the middle
// of a strip, which adds a strip.
inline int seen_tokens(const AttentionSpec& s, int depth) {
  return s.window > 0 ? std::min(depth, s.window + kStrip) : depth;
}

struct Split {
  int runs;     // runs of each (row, head tile) pair; a multiple of cluster
  int cluster;  // blocks
  int min_run;  // tokens
};

// The properties of the device that decide how decode is split.
struct DecodeDevice {
  int multiprocessors;
  int resident;   // blocks of a multiprocessor
  bool clusters;  // the GPU has clusters
};

// If the (row, head tile) pairs leave multiprocessors free: one wave of blocks, a tenth fewer than
// fit, since clusters do not fill all multiprocessors. If not: the number of runs whose waves cost
// least, where a wave costs as much as kWaveTokens more tokens in each run. In both cases there are
// enough runs that a long sequence among short ones does not delay the step.
inline Split split_for(int rows, const AttentionSpec& s, int depth, const DecodeDevice& gpu) {
  constexpr int kWaveTokens = 170, kMergeTokens = 100;
  const int pairs = rows * s.kv_heads * head_tiles(s);
  const int slots = gpu.multiprocessors * gpu.resident, wave = slots * 9 / 10;
  const int context = seen_tokens(s, depth);
  const auto up = [](int64_t x, int unit) { return static_cast<int>((x + unit - 1) / unit); };
  Split split = {wave / pairs, 1, kRunUnit};
  if (split.runs >= 2) {
    const int useful = std::min(split.runs, up(context, kRunUnit));
    while (gpu.clusters && split.cluster < kMaxCluster && 2 * split.cluster <= useful) {
      split.cluster *= 2;
    }
    // No more runs than will have work: blocks that only exit cost time too.
    if (gpu.clusters && context <= split.cluster * kOneClusterRun) split.runs = split.cluster;
  } else {
    split.min_run = 32 * kRunUnit;
    int64_t least = -1;
    for (int runs = 1; runs <= 16; ++runs) {
      const int64_t cost = int64_t{up(int64_t{pairs} * runs, slots)} *
                           (up(context, runs) + kWaveTokens + (runs > 1 ? kMergeTokens : 0));
      if (least < 0 || cost < least) least = cost, split.runs = runs;
    }
  }
  split.runs = std::max(split.runs, std::min(context / 8192, 16));
  split.runs = std::min(split.runs, up(context, split.min_run));
  split.runs = std::max(1, split.runs / split.cluster) * split.cluster;
  return split;
}

// The launch as kernels of decode take it, checked. After launch_rope_append() queries are ready.
AttentionLaunch decode_launch(const AttentionLaunch& asked);

// ---- attention_wide ----

inline constexpr int kWideKeys = 32;  // tokens that a block takes at a time
inline constexpr int kWideRows = 8;   // of a prompt's tile
inline constexpr int kMostWideRuns = 256;

// Runs of a row in decode, and the blocks of a cluster. The runs of one cluster merge without
// another launch.
struct WideSplit {
  int runs, cluster;  // cluster: 1, or all runs
};

// There are as many runs as give each multiprocessor a block; in deep contexts, two blocks, so
// that a long sequence among short ones delays the step less. Runs have at least kShortestRun
// tokens when the sequence is as deep as `depth`; shorter sequences have shorter runs.
inline WideSplit wide_split(int rows, const AttentionSpec& s, int depth, int multiprocessors,
                            bool clusters) {
  constexpr int kShortestRun = 128, kMostQueries = 32;  // tokens; queries of a block
  const int group = s.heads / s.kv_heads;
  const int blocks = rows * s.kv_heads * ((group + kMostQueries - 1) / kMostQueries);
  const int context = s.window > 0 ? std::min(depth, s.window + kWideKeys) : depth;
  const int wanted =
      std::max(multiprocessors / blocks, std::min(context / 8192, 2 * multiprocessors / blocks));
  const int useful = (context + kShortestRun - 1) / kShortestRun;
  const int runs = std::clamp(std::min(wanted, useful), 1, kMostWideRuns);
  if (!clusters || runs > kMaxCluster) return {runs, 1};
  int cluster = 1;
  while (2 * cluster <= runs) cluster *= 2;
  return {cluster, cluster};
}

// ---- Prefill ----

inline constexpr int kPrefillWarps = 4;

// A warp takes 16 queries, or 32 if the output of 32 fits into its registers.
constexpr int queries_per_warp(int padded_dim) { return padded_dim <= 128 ? 32 : 16; }

constexpr int padded_head_dim(int head_dim) { return (head_dim + 63) / 64 * 64; }

inline int rows_per_tile(const AttentionSpec& s, AttentionCode code) {
  if (wide_takes(s)) return kWideRows;
  const int queries = code == AttentionCode::Wgmma && wgmma_takes(s)
                          ? kWgmmaQueries
                          : kPrefillWarps * queries_per_warp(padded_head_dim(s.head_dim));
  return std::max(1, queries / (s.heads / s.kv_heads));
}

}  // namespace skald::cuda
