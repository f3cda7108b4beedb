// Decode attention: rotation, append and attention for rows of different sequences, in one kernel.
//
// Floor: each sequence's keys and values read once, context * kv_heads * head_dim * 2 numbers. At
// short contexts that takes less than a microsecond, and the chain of dependent instructions is the
// cost. So the kernel computes before its wait whatever does not depend on the kernel ahead, and a
// warp takes 32 tokens at once if its registers hold them.
//
// Split: a block takes up to kTileHeads query heads of one KV head and a run of the row's tokens.
// The launch fixes the number of runs, since graphs replay it. The position fixes their length, and
// clusters without a run exit. A warp brings strips of 16 tokens into the registers of matrix
// products (decode_attend.cuh): straight from memory (decode_strip.cuh) or, if there is much to
// read, through a ring (decode_ring.cuh). The order of dimensions and tokens in a product's sum is
// free, so lanes load 16 adjacent bytes. Strips are fetched before the wait for the kernel ahead.
// The new token does not come through the cache: the block of the last run puts it into its strip.
//
// Merging, always in the same order: the warps of a cluster send their results to its blocks
// (decode_inbox.cuh), and each block merges a share of the output. Clusters merge through the
// workspace: the block that is the last to finish its share merges it.
#include <algorithm>
#include <cstdint>

#include "cuda/gpu/kernel_code.h"
#include "cuda/kernels/attention/attention.h"
#include "cuda/kernels/attention/attention_split.h"
#include "cuda/kernels/attention/decode_attend.cuh"
#include "cuda/kernels/attention/decode_clusters.cuh"
#include "cuda/kernels/attention/decode_inbox.cuh"
#include "cuda/kernels/attention/decode_ring.cuh"
#include "cuda/kernels/attention/decode_rows.cuh"
#include "cuda/kernels/attention/decode_strip.cuh"
#include "cuda/kernels/attention/sink.cuh"
#include "cuda/kernels/device/all_shared.cuh"
#include "cuda/kernels/device/cluster.cuh"
#include "cuda/kernels/device/launch.cuh"
#include "cuda/kernels/prepared_rows.h"
#include "cuda/kernels/tiles/prepared_rows.cuh"
#include "engine/base/check.h"

namespace skald::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kThreads = kWarps * 32;

// The host computes these numbers, since divisions take long on a GPU.
struct Heads {
  int group;    // query heads that read one KV head
  int tiles;    // tiles of kTileHeads of these heads
  int min_run;  // tokens
};

// How strips reach registers. Registers: direct loads. Few: direct loads into more registers, for
// steps that read so little that they need few blocks. Ring: on sm_90, through a ring that bulk
// copies fill. WideRing: a larger ring, for so few blocks that each can have a multiprocessor,
// beside a block of gemm_q_sm90. It takes more than half of the shared memory, so that no two
// blocks share a multiprocessor while others idle. All but Registers are for heads of exactly kDim
// dimensions.
enum class Way { Registers, Few, Ring, WideRing };

// kTogether: strips that a warp takes at once. kBlocks: blocks that then fit on a multiprocessor.
template <int kDim, Way kWay>
constexpr int kTogether = kWay == Way::WideRing                                   ? 3
                          : kDim <= 64 || (kWay != Way::Registers && kDim <= 128) ? 2
                                                                                  : 1;
template <int kDim, Way kWay>
constexpr int kBlocks = kWay >= Way::Ring  ? std::max(1, 256 / kDim)
                        : kWay == Way::Few ? kResident - 1
                        : kDim <= 128      ? kResident
                                           : 1;
constexpr int kStep = kWarps * kStrip;  // tokens from a warp's strip to its next

// The most registers of a thread. kBlocks limits them, and so does a block of another kernel
// beside: 224 beside gemv_q_sm90, 128 beside gemm_q_sm90. Toolkits before 12.4 have launch bounds
// alone.
#if __CUDACC_VER_MAJOR__ * 100 + __CUDACC_VER_MINOR__ >= 1204
template <int kDim, Way kWay>
constexpr int kMostRegisters = kWay == Way::Few ? 224
                               : (kWay >= Way::Ring && kDim <= 128)
                                   ? 128
                                   : std::min(255, 65536 / kThreads / kBlocks<kDim, kWay> / 8 * 8);
#define SKALD_ATTEND_BOUNDS __maxnreg__((kMostRegisters<kDim, kWay>))
#else
#define SKALD_ATTEND_BOUNDS __launch_bounds__(kThreads, kBlocks<kDim, kWay>)
#endif

template <class T, int kDim, bool kExact, Way kWay>
struct SourceOf {
  using type = StripsInRegisters<T, kDim, kExact, kTogether<kDim, kWay>, kStep>;
};
template <class T, int kDim>
struct SourceOf<T, kDim, true, Way::Ring> {
  using type = StripsInRing<T, kDim, kTogether<kDim, Way::Ring>, kStep>;
};
template <class T, int kDim>
struct SourceOf<T, kDim, true, Way::WideRing> {
  using type = StripsInRing<T, kDim, kTogether<kDim, Way::WideRing>, kStep>;
};

// WideRing is for heads of 128 dimensions and for few heads in a group, so that the memory for
// merging leaves room for the ring. Besides its dynamic memory a block has static variables and 1
// KB that CUDA takes.
constexpr int kWideDim = 128, kWideHeads = 4, kWideBytes = 109 * 1024;
constexpr int kOwnBytes = 4352 + 1024, kProductsOwnBytes = 656 + 1024, kSm90Bytes = 228 * 1024;
static_assert(2 * (kWideBytes + kOwnBytes) > kSm90Bytes);
static_assert(kWideBytes + kOwnBytes + kBytesBesideAttention + kProductsOwnBytes <= kSm90Bytes);

bool has_wide_ring(const AttentionLaunch& a) {
  const AttentionSpec& s = a.spec;
  const Split split = split_for(a.rows, s, a.decode.depth,
                                {a.multiprocessors, kBlocks<kWideDim, Way::WideRing>, true});
  return a.decode.prepares.memory && s.heads / s.kv_heads <= kWideHeads &&
         int64_t{split.runs} * s.kv_heads * a.rows <= a.multiprocessors;
}

#if SKALD_HAS_MMA

constexpr int kMostMergers = 8;  // lanes that merge a unit, which is 4 dimensions of a head

template <class T, int kDim, class Source>
struct Shared {
  DecodeRows<T, kDim, kThreads> rows;
  typename Source::Barriers barriers[kWarps];
  int ticket;
};

template <class T, int kDim, bool kExact, int kStrips, class Source>
__device__ __forceinline__ void attend(const AttentionLaunch& a, const Heads& all) {
  __shared__ Shared<T, kDim, Source> shared;
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
  const Inbox<kWarps, kDim / 4> inbox(dynamic + kWarps * Source::kWarpBytes, units, cluster, rank);
  const int my_units = max(0, min(inbox.each(), units - rank * inbox.each()));
  if (threadIdx.x == 0) inbox.expect(my_units);
  cluster_arrive_relaxed();

  const DecodeRun<T> tokens = {a, pages, kv_head, head_dim, start, min(run_end, position), run_end};
  int token = origin + run * run_length + warp * kStrip;
  Source source(tokens, token, dynamic + warp * Source::kWarpBytes, &shared.barriers[warp]);
  const DecodeBlock block = {row, kv_head, group, first_head, heads, head_dim, has_new};
  const auto places = shared.rows.prepare(a, block, position);
  const auto new_slot = [&] { return tokens.keys_at(position, pages[position / kPageTokens]); };
  const T* const appended = brings_new(a) ? nullptr : new_slot();
  wait_for_kernel_ahead();
  shared.rows.fill(a, block, places, appended);

  const float scale = s.scale * kLog2E;
  uint4 q[kDim / 32];
#pragma unroll
  for (int j = 0; j < kDim / 32; ++j) {
    q[j] = *reinterpret_cast<const uint4*>(&shared.rows.x[g][32 * j + 8 * c]);
  }
  Attended<T, kDim, kStrips, kStep> attended;
  for (; token < run_end; token += kStrips * kStep) {
    float scores[kStrips][4] = {};
#pragma unroll
    for (int i = 0; i < kStrips; ++i) {
      uint4 keys[kDim / 32][2];
      auto& k = source.keys(i, keys);
      if (has_new) shared.rows.put_key(k, position - token - i * kStep);
      attended.score(scores[i], k, q);
    }
    source.next_keys();
    attended.weigh(scores, token, start, run_end, scale, s.softcap);
#pragma unroll
    for (int i = 0; i < kStrips; ++i) {
      // A short sequence has one strip. Skipping the instructions for other strips saves time.
      if (i > 0 && token + i * kStep >= run_end) break;
      const uint32_t weights0 = transpose(pack(T(), scores[i][0], scores[i][1]));
      const uint32_t weights1 = transpose(pack(T(), scores[i][2], scores[i][3]));
#pragma unroll
      for (int j = 0; j < kDim / 64; ++j) {
        uint4 values[4];
        auto& v = source.values(i, j, values);
        if (has_new) shared.rows.put_value(v, j, position - token - i * kStep);
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
  if (has_new && first_head == 0 && brings_new(a)) shared.rows.store_new(a, block, new_slot());
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
  for (int first = 0; first < my_units; first += kThreads >> lanes_shift) {
    const int local = first + (static_cast<int>(threadIdx.x) >> lanes_shift);
    const int unit = rank * inbox.each() + local;
    Partial p;
    if (local < my_units) {
      float4 sums[kWarps];
      float2 weights[kWarps];
#pragma unroll
      for (int i = 0; i < kWarps; ++i) {
        sums[i] = inbox.sum(part, i, unit);
        weights[i] = inbox.weights(part, i, unit);
        p.highest = fmaxf(p.highest, weights[i].x);
      }
#pragma unroll
      for (int i = 0; i < kWarps; ++i) {
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
      while (lanes > 1 && my_units * lanes > kThreads) lanes /= 2;
      for (int first = 0; first < my_units; first += kThreads / lanes) {
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

template <class T, int kDim, bool kExact, Way kWay>
__global__ void SKALD_ATTEND_BOUNDS attend_decode(const __grid_constant__ AttentionLaunch a,
                                                  const __grid_constant__ Heads all) {
#if SKALD_HAS_MMA
#if __CUDA_ARCH__ >= 900
  constexpr bool kLaunched = true;
#else
  constexpr bool kLaunched = kWay == Way::Registers;
#endif
  if constexpr (kLaunched) {
    using Source = typename SourceOf<T, kDim, kExact, kWay>::type;
    attend<T, kDim, kExact, kTogether<kDim, kWay>, Source>(a, all);
  }
#endif
}

template <class T, int kDim, bool kExact, Way kWay>
void launch_decode(const AttentionLaunch& a, Stream stream) {
  const bool clusters = a.code == AttentionCode::Wgmma;
  const Split split =
      split_for(a.rows, a.spec, a.decode.depth, {a.multiprocessors, kBlocks<kDim, kWay>, clusters});
  cudaLaunchAttribute attributes[2] = {};
  attributes[0].id = cudaLaunchAttributeClusterDimension;
  attributes[0].val.clusterDim.x = split.cluster;
  attributes[0].val.clusterDim.y = attributes[0].val.clusterDim.z = 1;
  attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[1].val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(split.runs, a.spec.kv_heads * head_tiles(a.spec), a.rows);
  config.blockDim = dim3(kThreads);
  config.stream = stream;
  constexpr int kRingBytes = kWarps * SourceOf<T, kDim, kExact, kWay>::type::kWarpBytes;
  const auto bytes = [&](int heads, int cluster) {
    return kRingBytes + inbox_bytes(heads * kDim / 4, cluster, kWarps);
  };
  const auto kernel = attend_decode<T, kDim, kExact, kWay>;
  int dynamic = bytes(std::min(a.spec.heads / a.spec.kv_heads, kTileHeads), split.cluster);
  if (kWay == Way::WideRing) dynamic = std::max(dynamic, kWideBytes);
  config.dynamicSmemBytes = static_cast<size_t>(dynamic);
  SKALD_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  std::max(dynamic, bytes(kTileHeads, kMaxCluster))));
  ask_for_all_shared(kernel);
  config.attrs = clusters ? attributes : attributes + 1;
  config.numAttrs = (clusters ? 1 : 0) + (a.dependent ? 1 : 0);
  SKALD_CUDA(
      cudaLaunchKernelEx(&config, kernel, a,
                         Heads{a.spec.heads / a.spec.kv_heads, head_tiles(a.spec), split.min_run}));
}

template <class T, int kDim, bool kExact>
void launch_decode(const AttentionLaunch& a, Stream stream) {
  if constexpr (kExact) {
    // Rings leave no room beside them for blocks of the kernels before and after. That costs more
    // than it gains if a step reads little: for few rows of small models, up to 12288 tokens.
    constexpr int64_t kRingFrom = 24 << 20, kRingFromSmall = 64 << 20;
    const int64_t bytes = int64_t{a.rows} * seen_tokens(a.spec, a.decode.depth) * a.spec.kv_heads *
                          kDim * 2 * sizeof(T);
    const bool small = kDim <= 64 && a.rows <= 4;
    if (a.code == AttentionCode::Wgmma && bytes >= (small ? kRingFromSmall : kRingFrom)) {
      if constexpr (kDim == kWideDim) {
        if (has_wide_ring(a)) return launch_decode<T, kDim, true, Way::WideRing>(a, stream);
      }
      return launch_decode<T, kDim, true, Way::Ring>(a, stream);
    }
    if constexpr (kDim == 128) {
      if (a.code == AttentionCode::Wgmma) return launch_decode<T, kDim, true, Way::Few>(a, stream);
    }
  }
  launch_decode<T, kDim, kExact, Way::Registers>(a, stream);
}

template <class T>
void launch_decode(const AttentionLaunch& a, Stream stream) {
  const int head_dim = a.spec.head_dim;
  if (head_dim == 64) return launch_decode<T, 64, true>(a, stream);
  if (head_dim == 128) return launch_decode<T, 128, true>(a, stream);
  if (head_dim < 64) return launch_decode<T, 64, false>(a, stream);
  if (head_dim < 128) return launch_decode<T, 128, false>(a, stream);
  if (head_dim <= 192) return launch_decode<T, 192, false>(a, stream);
  if (head_dim < 256) return launch_decode<T, 256, false>(a, stream);
  return launch_decode<T, 256, true>(a, stream);
}

}  // namespace

AttentionCode attention_code(DType type) {
  if (type != DType::F16 && type != DType::BF16) return AttentionCode::Plain;
  if (attention_has_wgmma()) return AttentionCode::Wgmma;
  cudaFuncAttributes code;
  SKALD_CUDA(cudaFuncGetAttributes(&code, attend_decode<Half, 128, true, Way::Registers>));
  const bool mma = is_loaded(KernelCode::Sm80, code.ptxVersion, code.binaryVersion);
  return mma ? AttentionCode::Mma : AttentionCode::Plain;
}

void launch_attention_decode(const AttentionLaunch& asked, Stream stream) {
  AttentionLaunch a = asked;
  if (a.decode.after_append) {
    check(!a.dependent, "the rows of the step are in the cache before attention starts");
    if (a.appends) {  // q is ready
      a.rope_pairs = 0;
      a.q_norm = a.k_norm = nullptr;
      a.v_norm = false;
    }
  }
  check_attention(a);
  check(a.code != AttentionCode::Plain && mma_takes(a.spec),
        "attention_decode multiplies heads of up to 256 dimensions on tensor cores");
  check(!a.decode.prepares.memory || attention_prepares_rows(a.spec),
        "heads whose results can be prepared rows");
  if (a.rows == 0) return;
  if (a.type == DType::F16) {
    launch_decode<Half>(a, stream);
  } else {
    launch_decode<Bf16>(a, stream);
  }
}

template <>
void launch_attention<kernel_id("attention_decode")>(const AttentionLaunch& launch, Stream stream) {
  launch_attention_decode(launch, stream);
}

}  // namespace skald::cuda
