// A block of decode attention, which attention_decode.cu and attention_decode_codes_sm90.cu launch:
// its work from the step's rows to the merged output. attention_decode.cu describes it.
#pragma once

#include "cuda/kernels/attention/attention.h"
#include "cuda/kernels/attention/attention_split.h"
#include "cuda/kernels/attention/decode_attend.cuh"
#include "cuda/kernels/attention/decode_clusters.cuh"
#include "cuda/kernels/attention/decode_inbox.cuh"
#include "cuda/kernels/attention/decode_rows.cuh"
#include "cuda/kernels/attention/decode_run.cuh"
#include "cuda/kernels/attention/sink.cuh"
#include "cuda/kernels/device/all_shared.cuh"
#include "cuda/kernels/device/cluster.cuh"
#include "cuda/kernels/device/launch.cuh"
#include "cuda/kernels/prepared_rows.h"
#include "cuda/kernels/tiles/prepared_rows.cuh"

namespace skald::cuda {

inline constexpr int kDecodeWarps = 4;
inline constexpr int kDecodeThreads = kDecodeWarps * 32;
inline constexpr int kDecodeStep = kDecodeWarps * kStrip;  // tokens from a warp's strip to its next

// The host computes these numbers, since divisions take long on a GPU.
struct DecodeHeads {
  int group;    // query heads that read one KV head
  int tiles;    // tiles of kTileHeads of these heads
  int min_run;  // tokens
};

// Launches a kernel of such blocks. `used`: dynamic shared memory of this launch; `most`: of any.
struct DecodeBytes {
  int used, most;
};
template <class Kernel>
void launch_decode_blocks(Kernel* kernel, const AttentionLaunch& a, const Split& split,
                          bool clusters, const DecodeBytes& bytes, Stream stream) {
  cudaLaunchAttribute attributes[2] = {};
  attributes[0].id = cudaLaunchAttributeClusterDimension;
  attributes[0].val.clusterDim.x = split.cluster;
  attributes[0].val.clusterDim.y = attributes[0].val.clusterDim.z = 1;
  attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[1].val.programmaticStreamSerializationAllowed = 1;
  const int group = a.spec.heads / a.spec.kv_heads, tiles = head_tiles(a.spec);
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(split.runs, a.spec.kv_heads * tiles, a.rows);
  config.blockDim = dim3(kDecodeThreads);
  config.dynamicSmemBytes = static_cast<size_t>(bytes.used);
  config.stream = stream;
  SKALD_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes.most));
  ask_for_all_shared(kernel);
  config.attrs = clusters ? attributes : attributes + 1;
  config.numAttrs = (clusters ? 1 : 0) + (a.dependent ? 1 : 0);
  SKALD_CUDA(cudaLaunchKernelEx(&config, kernel, a, DecodeHeads{group, tiles, split.min_run}));
}

#if SKALD_HAS_MMA

inline constexpr int kMostMergers = 8;  // lanes that merge a unit, which is 4 dimensions of a head

template <class T, int kDim, class Source>
struct DecodeShared {
  DecodeRows<T, kDim, kDecodeThreads, Source::kCodes> rows;
  typename Source::Barriers barriers[kDecodeWarps];
  int ticket;
};

// Source: StripsInRegisters, StripsInRing, or StripsOfCodes for a cache of codes.
template <class T, int kDim, bool kExact, int kStrips, class Source>
__device__ __forceinline__ void attend_run(const AttentionLaunch& a, const DecodeHeads& all) {
  using Number = typename Source::Number;  // of the products
  __shared__ DecodeShared<T, kDim, Source> shared;
  extern __shared__ __align__(128) char dynamic[];

  let_next_kernel_start();
  const AttentionSpec& s = a.spec;
  const int head_dim = kExact ? kDim : s.head_dim;
  const int group = all.group, tiles = all.tiles;
  const int run = blockIdx.x, runs = gridDim.x, row = blockIdx.z;
  const int kv_head = blockIdx.y / tiles, first_head = blockIdx.y % tiles * kTileHeads;
  const int heads = min(group - first_head, kTileHeads);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, c = lane % 4;

  // The tokens [start, position], in runs that begin at `origin`.
  const int position = a.step.positions[row];
  const int32_t* const pages = pages_of(a, row);
  const int start = window_start(s, position), origin = start / kStrip * kStrip;
  const int cluster = cluster_blocks(), rank = run % cluster;
  const int length = position + 1 - origin;
  // Merging clusters costs more than one more strip for each warp. Without clusters, blocks with
  // fewer than min_run tokens cost more than longer runs of the other blocks.
  const int used = cluster == 1                         ? max(1, min(runs, length / all.min_run))
                   : length <= cluster * kOneClusterRun ? cluster
                                                        : runs;
  const int run_length =
      max(all.min_run, (length + used * kRunUnit - 1) / (used * kRunUnit) * kRunUnit);
  const int last_run = (length - 1) / run_length;
  const int clusters = last_run / cluster + 1;
  if (run / cluster >= clusters) return;
  const bool has_new = run == last_run;
  const int run_end = min(origin + (run + 1) * run_length, position + 1);

  const int units = heads * kDim / 4;
  const Inbox<kDecodeWarps, kDim / 4> inbox(dynamic + kDecodeWarps * Source::kWarpBytes, units,
                                            cluster, rank);
  const int my_units = max(0, min(inbox.each(), units - rank * inbox.each()));
  if (threadIdx.x == 0) inbox.expect(my_units);
  cluster_arrive_relaxed();

  const DecodeRun<T> tokens = {a, pages, kv_head, head_dim, start, min(run_end, position), run_end};
  int token = origin + run * run_length + warp * kStrip;
  Source source(tokens, token, dynamic + warp * Source::kWarpBytes, &shared.barriers[warp]);
  const DecodeBlock block = {row, kv_head, group, first_head, heads, head_dim, has_new};
  const auto places = shared.rows.prepare(a, block, position);
  const auto new_slot = [&] { return tokens.keys_at(position, pages[position / kPageTokens]); };
  const T* const appended = brings_new(a) || Source::kCodes ? nullptr : new_slot();
  wait_for_kernel_ahead();
  shared.rows.fill(a, block, places, appended);
  if constexpr (Source::kCodes) {
    Source::rotate_queries(shared.rows);
    if (has_new) source.new_codes(shared.rows, position, first_head == 0);
  }

  const float scale = s.scale * kLog2E;
  uint4 q[kDim / 32];
#pragma unroll
  for (int j = 0; j < kDim / 32; ++j) {
    q[j] = *reinterpret_cast<const uint4*>(&shared.rows.x[g][Source::dim(j, c)]);
  }
  Attended<Number, kDim, kStrips, kDecodeStep> attended;
  for (; token < run_end; token += kStrips * kDecodeStep) {
    float scores[kStrips][4] = {};
#pragma unroll
    for (int i = 0; i < kStrips; ++i) {
      uint4 keys[kDim / 32][2];
      auto& k = source.keys(i, keys);
      if (has_new) shared.rows.template put_key<Source>(k, position - token - i * kDecodeStep);
      attended.score(scores[i], k, q);
    }
    source.next_keys();
    attended.weigh(scores, token, start, run_end, scale, s.softcap);
#pragma unroll
    for (int i = 0; i < kStrips; ++i) {
      // A short sequence has one strip. Skipping the instructions for other strips saves time.
      if (i > 0 && token + i * kDecodeStep >= run_end) break;
      const uint32_t weights0 = transpose(pack(Number(), scores[i][0], scores[i][1]));
      const uint32_t weights1 = transpose(pack(Number(), scores[i][2], scores[i][3]));
#pragma unroll
      for (int j = 0; j < kDim / 64; ++j) {
        uint4 values[4];
        auto& v = source.values(i, j, values);
        if (has_new) shared.rows.put_value(v, j, position - token - i * kDecodeStep);
        attended.add_values(j, v, weights0, weights1);
      }
    }
    source.next_values();
  }
  attended.finish();
  cluster_wait();
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    if (2 * c + h >= heads) break;
#pragma unroll
    for (int j = 0; j < kDim / 64; ++j) {
      const int unit = ((2 * c + h) * kDim + 64 * j + 8 * g) / 4;
      const float2 weight = {attended.maximum[h], attended.total[h]};
      const auto& out = attended.out[j];
      inbox.send(unit, warp,
                 {{out[0][h], out[0][2 + h], out[1][h], out[1][2 + h]},
                  {out[2][h], out[2][2 + h], out[3][h], out[3][2 + h]}},
                 weight);
    }
  }
  if constexpr (!Source::kCodes) {
    if (has_new && first_head == 0 && brings_new(a)) shared.rows.store_new(a, block, new_slot());
  }
  inbox.wait();

  // This block merges a share of the cluster's result. A unit is merged by as many adjacent lanes
  // as the cluster has blocks.
  const int lanes_shift = 31 - __clz(cluster), part = lane & (cluster - 1);
  const int64_t pair = int64_t{row} * gridDim.y + blockIdx.y;
  float* parts = a.decode.workspace + pair * (runs >> lanes_shift) * kPartFloats * kDim;
  T* row_out =
      static_cast<T*>(a.out) + (int64_t{row} * s.heads + kv_head * group + first_head) * head_dim;
  // Writes one unit of the output. All lanes call it together: `lanes` adjacent lanes hold a unit,
  // and the next lanes hold the next unit.
  const auto write_out = [&](int unit, bool valid, const Partial& p, int lanes) {
    const int head = unit / (kDim / 4), dim = unit % (kDim / 4) * 4;
    valid = valid && lane % lanes == 0 && dim < head_dim;
    const float sink = valid ? sink_weight(a, kv_head * group + first_head + head, p.highest) : 0;
    const float share = __fdividef(1, p.all + sink);
    const float x[4] = {p.sum.x * share, p.sum.y * share, p.sum.z * share, p.sum.w * share};
    if (a.decode.prepares.memory) {
      const PreparedTile prepared(a.decode.prepares, row / a.decode.prepares.tile_rows);
      const unsigned tile_row = row % a.decode.prepares.tile_rows;
      const unsigned col = (kv_head * group + first_head + head) * head_dim + dim;
      float sum = 0;
      if (valid)
        sum = prepared.put(x[0], x[1], tile_row, col) + prepared.put(x[2], x[3], tile_row, col + 2);
      sum += __shfl_xor_sync(~0u, sum, lanes);
      sum += __shfl_xor_sync(~0u, sum, 2 * lanes);
      if (valid && unit % 4 == 0) prepared.put_sum(sum, tile_row, col);
      return;
    }
    if (!valid) return;
    T* to = row_out + head * head_dim + dim;
    if constexpr (kExact) {
      *reinterpret_cast<uint2*>(to) = {pack(T(), x[0], x[1]), pack(T(), x[2], x[3])};
    } else {
      for (int i = 0; i < 4 && dim + i < head_dim; ++i) to[i] = from_float<T>(x[i]);
    }
  };
  for (int first = 0; first < my_units; first += kDecodeThreads >> lanes_shift) {
    const int local = first + (static_cast<int>(threadIdx.x) >> lanes_shift);
    const int unit = rank * inbox.each() + local;
    Partial p;
    if (local < my_units) {
      float4 sums[kDecodeWarps];
      float2 weights[kDecodeWarps];
#pragma unroll
      for (int i = 0; i < kDecodeWarps; ++i) {
        sums[i] = inbox.sum(part, i, unit);
        weights[i] = inbox.weights(part, i, unit);
        p.highest = fmaxf(p.highest, weights[i].x);
      }
#pragma unroll
      for (int i = 0; i < kDecodeWarps; ++i) {
        p.add_scaled(sums[i], weights[i].y, Partial::factor(weights[i].x, p.highest));
      }
    }
    p.add_lanes(cluster);
    if (clusters == 1) {
      write_out(unit, local < my_units, p, cluster);
    } else if (part == 0 && local < my_units) {
      float* to = parts + run / cluster * kPartFloats * kDim;
      reinterpret_cast<float4*>(to)[unit] = p.sum;
      reinterpret_cast<float2*>(to + kTileHeads * kDim)[unit] = {p.highest, p.all};
    }
  }
  if (clusters > 1) {
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
      // The last cluster sets the ticket back to zero.
      unsigned* ticket = reinterpret_cast<unsigned*>(a.decode.tickets) + pair * kMaxCluster + rank;
      shared.ticket = static_cast<int>(atomicInc(ticket, static_cast<unsigned>(clusters - 1)));
    }
    __syncthreads();
    if (shared.ticket == clusters - 1) {
      __threadfence();
      // The most lanes per unit that still merge all units at once; at least one.
      int lanes = kMostMergers;
      while (lanes > 1 && my_units * lanes > kDecodeThreads) lanes /= 2;
      for (int first = 0; first < my_units; first += kDecodeThreads / lanes) {
        const int local = first + static_cast<int>(threadIdx.x) / lanes;
        const int unit = rank * inbox.each() + local;
        Partial p;
        if (local < my_units)
          add_clusters<kDim>(p, parts, unit, threadIdx.x % lanes, lanes, clusters);
        __syncwarp();
        p.add_lanes(lanes);
        write_out(unit, local < my_units, p, lanes);
      }
    }
  }
}

#endif

}  // namespace skald::cuda
