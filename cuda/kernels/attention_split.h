// How attention divides a step's work into blocks, for the kernels and for what is planned and
// prepared on the host; attention_decode.cu and attention_prefill.cu say what a block does.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cuda/kernels/attention.h"

namespace skald::cuda {

// ---- Decode ----

inline constexpr int kStrip = 16;           // tokens that a warp takes at a time
inline constexpr int kRunUnit = 64;         // tokens; a run's length is a multiple
inline constexpr int kTileHeads = 8;        // query heads of a block
inline constexpr int kMaxCluster = 8;       // blocks
inline constexpr int kResident = 3;         // blocks of a multiprocessor: registers allow no more
inline constexpr int kOneClusterRun = 128;  // tokens; runs may grow so far to stay in one cluster

inline int head_tiles(const AttentionSpec& s) {
  return (s.heads / s.kv_heads + kTileHeads - 1) / kTileHeads;
}

// What one cluster leaves for merging, for each dimension of padded heads: of each head and 4
// dimensions 4 sums, a maximum and a total.
inline constexpr int kPartFloats = kTileHeads / 4 * 6;

struct Split {
  int runs;     // of a (row, head tile) pair's tokens; a multiple of cluster
  int cluster;  // blocks
  int min_run;  // tokens
};

// While the pairs leave room on the device: one wave of blocks, with a tenth to spare, since
// clusters do not fill every corner. Beyond: four waves, so that the last one's idle processors
// cost little, and longer runs. In both, enough runs that a long sequence among short ones does not
// hold up the rest.
inline Split split_for(int rows, const AttentionSpec& s, int max_context, int multiprocessors,
                       bool clusters) {
  const int pairs = rows * s.kv_heads * head_tiles(s);
  const int wave = multiprocessors * kResident * 9 / 10;
  const int context = s.window > 0 ? std::min(max_context, s.window + kStrip) : max_context;
  const auto up = [](int x, int unit) { return (x + unit - 1) / unit; };
  Split split = {wave / pairs, 1, kRunUnit};
  if (split.runs >= 2) {
    const int useful = std::min(split.runs, up(context, kRunUnit));
    while (clusters && split.cluster < kMaxCluster && 2 * split.cluster <= useful) {
      split.cluster *= 2;
    }
  } else {
    split.runs = up(4 * wave, pairs);
    split.min_run = 8 * kRunUnit;
  }
  split.runs = std::max(split.runs, std::min(up(context, 4096), 16));
  split.runs = std::min(split.runs, up(context, split.min_run));
  split.runs = std::max(1, split.runs / split.cluster) * split.cluster;
  return split;
}

// ---- Prefill ----

inline constexpr int kPrefillWarps = 4;

// A warp takes 16 queries, or 32 where its registers hold the output of as many.
constexpr int queries_per_warp(int padded_dim) { return padded_dim <= 128 ? 32 : 16; }

constexpr int padded_head_dim(int head_dim) { return (head_dim + 63) / 64 * 64; }

inline int rows_per_tile(const AttentionSpec& s, AttentionCode code) {
  const int queries = code == AttentionCode::Wgmma && wgmma_takes(s)
                          ? kWgmmaQueries
                          : kPrefillWarps * queries_per_warp(padded_head_dim(s.head_dim));
  return std::max(1, queries / (s.heads / s.kv_heads));
}

}  // namespace skald::cuda
