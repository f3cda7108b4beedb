// Decode attention: rotation, append and attention for rows of different sequences, in one kernel.
//
// Must move: each sequence's keys and values once, context * kv_heads * head_dim * 2 numbers. At
// short contexts that is under a microsecond and the chain of dependent instructions is the cost,
// so whatever can be found out before the kernel ahead has ended is, and a warp takes 32 tokens at
// once where its registers hold them.
//
// Split: a block takes up to kTileHeads query heads of one KV head and a run of the row's tokens;
// the number of runs is fixed by the launch (graphs replay it), their length follows from the
// position, and clusters left without a run exit. A warp takes strips of 16 tokens, straight from
// memory into the registers of matrix products: scores as K · Qᵀ, output as Vᵀ · Pᵀ, so that tokens
// and dimensions fill the 16 rows and heads the 8 columns. Which dimension or token is which in a
// product's sum is free, so lanes load 16 adjacent bytes and no shared memory is needed. Strips are
// fetched before the wait for the kernel ahead. The new token does not come through the cache: the
// last run's block puts it into its strip.
//
// Merging, always in the same order: all warps of a cluster by device/decode_inbox.cuh, each block
// its share of the output; clusters through the workspace, where the block that finishes its share
// last merges it.
#include "cuda/kernels/attention.h"
#include "cuda/kernels/attention_split.h"
#include "cuda/kernels/device/all_shared.cuh"
#include "cuda/kernels/device/cluster.cuh"
#include "cuda/kernels/device/decode_inbox.cuh"
#include "cuda/kernels/device/decode_rows.cuh"
#include "cuda/kernels/device/decode_strip.cuh"
#include "cuda/kernels/device/kv_page.cuh"
#include "cuda/kernels/device/launch.cuh"
#include "cuda/kernels/device/math.cuh"
#include "cuda/kernels/device/mma.cuh"
#include "cuda/kernels/device/partial.cuh"
#include "cuda/kernels/device/softcap.cuh"

namespace skald::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kThreads = kWarps * 32;

// Found on the host, since divisions take long.
struct Heads {
  int group;    // query heads that read one KV head
  int tiles;    // of these
  int min_run;  // tokens
};

#if SKALD_HAS_MMA

constexpr int kMergers = 8;  // lanes that merge a unit: 4 dimensions of a head

template <class T, int kDim>
struct Shared {
  DecodeRows<T, kDim, kThreads> rows;
  int ticket;
};

#endif

template <class T, int kDim, bool kExact>
__global__ void __launch_bounds__(kThreads, kDim <= 128 ? 3 : 1)
    attend_decode(const __grid_constant__ AttentionLaunch a, const __grid_constant__ Heads all) {
#if SKALD_HAS_MMA
  using Rows = DecodeRows<T, kDim, kThreads>;
  __shared__ Shared<T, kDim> shared;
  extern __shared__ __align__(16) char inbox_memory[];

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
  const int start = window_start(s, position), origin = start / kStrip * kStrip;
  const int cluster = cluster_blocks(), rank = run % cluster;
  const int length = position + 1 - origin;
  // Merging clusters costs more than one strip more for each warp, and blocks without clusters that
  // have fewer than min_run tokens more than longer runs of the others.
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
  const int cached_end = min(run_end, position);

  const int units = heads * kDim / 4;
  const Inbox<kWarps> inbox(inbox_memory, units, cluster, rank);
  const int my_units = max(0, min(inbox.each(), units - rank * inbox.each()));
  if (threadIdx.x == 0) inbox.expect(cluster * kWarps * my_units);
  cluster_arrive();

  const int32_t* pages = pages_of(a, row);
  const auto page_at = [&](int token) { return token < run_end ? pages[token / kPageTokens] : 0; };
  const auto keys_at = [&](int token, int page) {
    return page_keys<T>(a, page, kv_head) + int64_t{token % kPageTokens} * head_dim;
  };
  const int64_t to_values = keys_to_values(s);
  // A warp's strips are a step apart. It has kTogether of them at a time.
  constexpr int kTogether = kDim <= 64 ? 2 : 1, kStep = kWarps * kStrip;
  Strip<T, kDim, kExact> strips[kTogether];
  int token = origin + run * run_length + warp * kStrip;
  int page[kTogether];
#pragma unroll
  for (int i = 0; i < kTogether; ++i) {
    const int first = token + i * kStep;
    const T* keys = keys_at(first, page_at(first));
    strips[i].load_keys(keys, head_dim, start - first, cached_end - first);
    strips[i].load_values(keys + to_values, head_dim, start - first, cached_end - first);
    page[i] = page_at(first + kTogether * kStep);
  }
  const DecodeBlock block = {row, kv_head, group, first_head, heads, head_dim, has_new};
  const auto places = shared.rows.prepare(a, block, position);
  wait_for_kernel_ahead();
  shared.rows.fill(a, block, places);

  const float scale = s.scale * kLog2E;
  uint4 q[kDim / 32];  // head g, dimensions 32 j + 8 c and the next 7
#pragma unroll
  for (int j = 0; j < kDim / 32; ++j) {
    q[j] = *reinterpret_cast<const uint4*>(&shared.rows.x[g][32 * j + 8 * c]);
  }
  // Of heads 2 c and 2 c + 1; the total of this lane's tokens only.
  float maximum[2] = {-INFINITY, -INFINITY}, total[2] = {0, 0};
  float out[kDim / 64][4][4] =
      {};  // [j][e]: dimensions 64 j + 8 g + 2 e and the next, two heads each
  for (; token < run_end; token += kTogether * kStep) {
    float score[kTogether][4] = {};  // tokens g, g, g + 8, g + 8 for heads 2 c, 2 c + 1
    const T* next_keys[kTogether];
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      const int first = token + i * kStep, next = first + kTogether * kStep;
      const int new_at = position - first;
      Strip<T, kDim, kExact>& strip = strips[i];
      if (has_new && new_at >= 0 && new_at < kStrip) {
        strip.put(new_at, shared.rows.x[Rows::kKey], shared.rows.x[Rows::kValue]);
      }
#pragma unroll
      for (int j = 0; j < kDim / 32; ++j) {
        const uint4 &k0 = strip.k[j][0], &k1 = strip.k[j][1];
        mma(T(), score[i], {k0.x, k1.x, k0.y, k1.y}, q[j].x, q[j].y);
        mma(T(), score[i], {k0.z, k1.z, k0.w, k1.w}, q[j].z, q[j].w);
      }
      next_keys[i] = keys_at(next, page[i]);
      page[i] = page_at(next + kTogether * kStep);
      if (next < cached_end) {
        strip.load_keys(next_keys[i], head_dim, start - next, cached_end - next);
      }
    }
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
#pragma unroll
      for (float& x : score[i]) x *= scale;
    }
    if (s.softcap != 0) {
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
#pragma unroll
        for (float& x : score[i]) x = soft_capped(x, s.softcap);
      }
    }
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float higher = maximum[h];
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
#pragma unroll
        for (int t = 0; t < 2; ++t) {
          const int at = token + i * kStep + g + 8 * t;
          float& x = score[i][2 * t + h];
          if (at < start || at >= run_end) x = -INFINITY;
          higher = fmaxf(higher, x);
        }
      }
#pragma unroll
      for (int lanes = 4; lanes < 32; lanes *= 2) {
        higher = fmaxf(higher, __shfl_xor_sync(~0u, higher, lanes));
      }
      const float keep = exp2_fast(maximum[h] - higher);
      maximum[h] = higher;
      total[h] *= keep;
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
#pragma unroll
        for (int t = 0; t < 2; ++t) {
          float& x = score[i][2 * t + h];
          x = exp2_fast(x - higher);
          total[h] += x;
        }
      }
#pragma unroll
      for (int j = 0; j < kDim / 64; ++j) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          out[j][e][h] *= keep;
          out[j][e][2 + h] *= keep;
        }
      }
    }
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      const int next = token + (i + kTogether) * kStep;
      Strip<T, kDim, kExact>& strip = strips[i];
      const uint32_t p0 = transpose(pack(T(), score[i][0], score[i][1]));
      const uint32_t p1 = transpose(pack(T(), score[i][2], score[i][3]));
#pragma unroll
      for (int j = 0; j < kDim / 64; ++j) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const uint32_t v0 = word(strip.v[j][0], e), v1 = word(strip.v[j][1], e);
          const uint32_t v2 = word(strip.v[j][2], e), v3 = word(strip.v[j][3], e);
          mma(T(), out[j][e],
              {__byte_perm(v0, v1, 0x5410), __byte_perm(v0, v1, 0x7632),
               __byte_perm(v2, v3, 0x5410), __byte_perm(v2, v3, 0x7632)},
              p0, p1);
        }
      }
      if (next < cached_end) {
        strip.load_values(next_keys[i] + to_values, head_dim, start - next, cached_end - next);
      }
    }
  }

#pragma unroll
  for (int h = 0; h < 2; ++h) {
#pragma unroll
    for (int lanes = 4; lanes < 32; lanes *= 2) total[h] += __shfl_xor_sync(~0u, total[h], lanes);
  }
  cluster_wait();
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    if (2 * c + h >= heads) break;
#pragma unroll
    for (int j = 0; j < kDim / 64; ++j) {
      const int unit = ((2 * c + h) * kDim + 64 * j + 8 * g) / 4;
      const float2 weight = {maximum[h], total[h]};
      inbox.send(unit, warp, {out[j][0][h], out[j][0][2 + h], out[j][1][h], out[j][1][2 + h]},
                 weight);
      inbox.send(unit + 1, warp, {out[j][2][h], out[j][2][2 + h], out[j][3][h], out[j][3][2 + h]},
                 weight);
    }
  }
  if (has_new && first_head == 0) {
    T* slot = keys_at(position, pages[position / kPageTokens]);
    shared.rows.store_new(a, block, slot);
  }
  inbox.wait();

  // The cluster's result, of which this block merges its share.
  const int part = lane % kMergers;
  const int64_t pair = int64_t{row} * gridDim.y + blockIdx.y;
  float* parts = a.workspace + pair * (runs / cluster) * kPartFloats * kDim;
  T* row_out =
      static_cast<T*>(a.out) + (int64_t{row} * s.heads + kv_head * group + first_head) * head_dim;
  const auto write_out = [&](int unit, const Partial& p) {
    const int head = unit / (kDim / 4), dim = unit % (kDim / 4) * 4;
    const float share = 1 / p.all;
    const float x[4] = {p.sum.x * share, p.sum.y * share, p.sum.z * share, p.sum.w * share};
    T* to = row_out + head * head_dim + dim;
    if constexpr (kExact) {
      *reinterpret_cast<uint2*>(to) = {pack(T(), x[0], x[1]), pack(T(), x[2], x[3])};
    } else {
      for (int i = 0; i < 4 && dim + i < head_dim; ++i) to[i] = from_float<T>(x[i]);
    }
  };
  for (int first = 0; first < my_units; first += kThreads / kMergers) {
    const int local = first + static_cast<int>(threadIdx.x) / kMergers;
    const int unit = rank * inbox.each() + local;
    Partial p;
    if (part < cluster && local < my_units) {
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
        if (weights[i].x > -INFINITY) {
          p.add_scaled(sums[i], weights[i].y, exp2f(weights[i].x - p.highest));
        }
      }
    }
    p.add_lanes();
    if (part > 0 || local >= my_units) continue;
    if (clusters == 1) {
      write_out(unit, p);
    } else {
      float* to = parts + run / cluster * kPartFloats * kDim;
      reinterpret_cast<float4*>(to)[unit] = p.sum;
      reinterpret_cast<float2*>(to + kTileHeads * kDim)[unit] = {p.highest, p.all};
    }
  }
  if (clusters > 1) {
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
      // Back to zero with the last of them.
      unsigned* ticket = reinterpret_cast<unsigned*>(a.tickets) + pair * kMaxCluster + rank;
      shared.ticket = static_cast<int>(atomicInc(ticket, static_cast<unsigned>(clusters - 1)));
    }
    __syncthreads();
    if (shared.ticket == clusters - 1) {
      __threadfence();
      for (int first = 0; first < my_units; first += kThreads / kMergers) {
        const int local = first + static_cast<int>(threadIdx.x) / kMergers;
        const int unit = rank * inbox.each() + local;
        Partial p;
        if (local < my_units) {
          for (int i = part; i < clusters; i += kMergers) {
            const float* from = parts + i * kPartFloats * kDim;
            const float2 weights =
                __ldcg(reinterpret_cast<const float2*>(from + kTileHeads * kDim) + unit);
            p.add({__ldcg(reinterpret_cast<const float4*>(from) + unit), weights.x, weights.y});
          }
        }
        __syncwarp();
        p.add_lanes();
        if (part == 0 && local < my_units) write_out(unit, p);
      }
    }
  }
#endif
}

template <class T, int kDim, bool kExact>
void launch_decode(const AttentionLaunch& a, Stream stream) {
  const bool clusters = a.code == AttentionCode::Wgmma;
  const Split split = split_for(a.rows, a.spec, a.max_context, a.multiprocessors, clusters);
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
  config.dynamicSmemBytes = inbox_bytes(
      std::min(a.spec.heads / a.spec.kv_heads, kTileHeads) * kDim / 4, split.cluster, kWarps);
  SKALD_CUDA(cudaFuncSetAttribute(attend_decode<T, kDim, kExact>,
                                  cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  inbox_bytes(kTileHeads * kDim / 4, kMaxCluster, kWarps)));
  ask_for_all_shared(attend_decode<T, kDim, kExact>);
  config.attrs = clusters ? attributes : attributes + 1;
  config.numAttrs = (clusters ? 1 : 0) + (a.dependent ? 1 : 0);
  SKALD_CUDA(
      cudaLaunchKernelEx(&config, attend_decode<T, kDim, kExact>, a,
                         Heads{a.spec.heads / a.spec.kv_heads, head_tiles(a.spec), split.min_run}));
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
  SKALD_CUDA(cudaFuncGetAttributes(&code, attend_decode<Half, 128, true>));
  return code.ptxVersion >= 80 ? AttentionCode::Mma : AttentionCode::Plain;
}

void launch_attention_decode(const AttentionLaunch& a, Stream stream) {
  check_attention(a);
  if (a.rows == 0) return;
  if (attention_kernel(a.code, a.spec, true) == AttentionKernel::Plain) {
    launch_rope_append(a, stream);
    launch_attention_plain(a, stream);
  } else if (a.type == DType::F16) {
    launch_decode<Half>(a, stream);
  } else {
    launch_decode<Bf16>(a, stream);
  }
}

}  // namespace skald::cuda
