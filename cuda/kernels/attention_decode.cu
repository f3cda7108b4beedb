// Decode attention: rotation, append and attention for rows of different sequences, in one kernel.
//
// Must move: each sequence's keys and values once, context * kv_heads * head_dim * 2 numbers. At
// short contexts that is under a microsecond and the chain of dependent accesses is the cost.
//
// Split: a block takes up to kTileHeads query heads of one KV head and a run of the row's cached
// tokens; the number of runs is fixed by the launch (graphs replay it), their length follows from
// the position, and clusters left without a run exit. A warp takes strips of 16 tokens in turn,
// straight from memory into the registers of matrix products: scores as K · Qᵀ, output as Vᵀ · Pᵀ,
// so that tokens and dimensions fill the 16 rows and heads the 8 columns. Which dimension or token
// is which in a product's sum is free, so lanes load 16 adjacent bytes and no shared memory is
// needed. Strips are fetched before the wait for the kernel ahead. The new token never goes through
// the cache: the last run's block adds it as one more partial result.
//
// Merging, always in the same order: warps through shared memory; blocks of a cluster through each
// other's, each block a slice of the output; clusters through the workspace, where the block that
// finishes its slice last merges it.
#include "cuda/kernels/attention.h"
#include "cuda/kernels/attention_split.h"
#include "cuda/kernels/device/cluster.cuh"
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

#if SKALD_HAS_MMA

constexpr int kSliceUnits = kThreads / 8;  // a unit is 4 dimensions of a head, merged by 8 lanes

template <class T, int kDim>
struct Shared {
  DecodeRows<T, kDim, kThreads> rows;
  alignas(16) float out[kWarps][kTileHeads][kDim];  // of each warp; then [0] of the block
  float highest[kWarps][kTileHeads];                // in units of log2; then [0] of the block
  float all[kWarps][kTileHeads];
  float block_highest[kTileHeads], block_all[kTileHeads];
  float new_score[kTileHeads];
  int ticket;
};

#endif

template <class T, int kDim, bool kExact>
__global__ void __launch_bounds__(kThreads, kDim <= 128 ? 3 : 1)
    attend_decode(const __grid_constant__ AttentionLaunch a, int min_run) {
#if SKALD_HAS_MMA
  __shared__ Shared<T, kDim> shared;

  let_next_kernel_start();
  const AttentionSpec& s = a.spec;
  const int head_dim = kExact ? kDim : s.head_dim;
  const int group = s.heads / s.kv_heads, tiles = gridDim.y / s.kv_heads;
  const int run = blockIdx.x, runs = gridDim.x, row = blockIdx.z;
  const int kv_head = blockIdx.y / tiles, first_head = blockIdx.y % tiles * kTileHeads;
  const int heads = min(group - first_head, kTileHeads);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, c = lane % 4;

  // The cached tokens [start, position), in runs that begin at `origin`.
  const int position = a.step.positions[row];
  const int start = window_start(s, position);
  const int origin = start < position ? start / kStrip * kStrip : position;
  const int cluster = cluster_blocks(), rank = run % cluster;
  const int length = position - origin;
  // Merging clusters costs more than one strip more for each warp.
  const int used = cluster > 1 && length <= cluster * kOneClusterRun ? cluster : runs;
  const int run_length =
      max(min_run, (length + used * kRunUnit - 1) / (used * kRunUnit) * kRunUnit);
  const int last_run = max(0, length - 1) / run_length;
  const int clusters = last_run / cluster + 1;
  if (run / cluster >= clusters) return;
  const bool has_new = run == last_run;
  const int run_end = min(origin + (run + 1) * run_length, position);

  const int32_t* pages = pages_of(a, row);
  const auto page_at = [&](int token) { return token < run_end ? pages[token / kPageTokens] : 0; };
  const auto keys_at = [&](int token, int page) {
    return page_keys<T>(a, page, kv_head) + int64_t{token % kPageTokens} * head_dim;
  };
  const int64_t to_values = keys_to_values(s);
  Strip<T, kDim, kExact> strip;
  int token = origin + run * run_length + warp * kStrip;
  int page = page_at(token);
  if (token < run_end) {
    const T* keys = keys_at(token, page);
    strip.load_keys(keys, head_dim, start - token, run_end - token);
    strip.load_values(keys + to_values, head_dim, start - token, run_end - token);
  }
  constexpr int kStep = kWarps * kStrip;
  page = page_at(token + kStep);
  T* slot = has_new ? keys_at(position, pages[position / kPageTokens]) : nullptr;
  shared.rows.prepare(a, position, head_dim);
  wait_for_kernel_ahead();
  shared.rows.fill(a, {row, kv_head, first_head, heads, head_dim}, slot);

  const float scale = s.scale * kLog2E;
  const auto score_of = [&](float product) {
    const float score = product * scale;
    return s.softcap == 0 ? score : soft_capped(score, s.softcap);
  };
  uint4 q[kDim / 32];  // head g, dimensions 32 j + 8 c and the next 7
#pragma unroll
  for (int j = 0; j < kDim / 32; ++j) {
    q[j] = *reinterpret_cast<const uint4*>(&shared.rows.x[g][32 * j + 8 * c]);
  }
  // Of heads 2 c and 2 c + 1; the total of this lane's tokens only.
  float maximum[2] = {-INFINITY, -INFINITY}, total[2] = {0, 0};
  float out[kDim / 64][4][4] =
      {};  // [j][e]: dimensions 64 j + 8 g + 2 e and the next, two heads each
  for (; token < run_end; token += kStep) {
    float score[4] = {};  // tokens g, g, g + 8, g + 8 for heads 2 c, 2 c + 1
#pragma unroll
    for (int j = 0; j < kDim / 32; ++j) {
      const uint4 &k0 = strip.k[j][0], &k1 = strip.k[j][1];
      mma(T(), score, {k0.x, k1.x, k0.y, k1.y}, q[j].x, q[j].y);
      mma(T(), score, {k0.z, k1.z, k0.w, k1.w}, q[j].z, q[j].w);
    }
    const int next = token + kStep;
    const T* next_keys = keys_at(next, page);
    page = page_at(next + kStep);
    if (next < run_end) strip.load_keys(next_keys, head_dim, start - next, run_end - next);

    float weight[4];
    const bool seen[2] = {token + g >= start && token + g < run_end,
                          token + g + 8 >= start && token + g + 8 < run_end};
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const float s0 = seen[0] ? score_of(score[h]) : -INFINITY;
      const float s1 = seen[1] ? score_of(score[2 + h]) : -INFINITY;
      float higher = fmaxf(maximum[h], fmaxf(s0, s1));
#pragma unroll
      for (int lanes = 4; lanes < 32; lanes *= 2) {
        higher = fmaxf(higher, __shfl_xor_sync(~0u, higher, lanes));
      }
      const float keep = exp2_fast(maximum[h] - higher);
      maximum[h] = higher;
      weight[h] = exp2_fast(s0 - higher);
      weight[2 + h] = exp2_fast(s1 - higher);
      total[h] = total[h] * keep + weight[h] + weight[2 + h];
#pragma unroll
      for (int j = 0; j < kDim / 64; ++j) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          out[j][e][h] *= keep;
          out[j][e][2 + h] *= keep;
        }
      }
    }
    const uint32_t p0 = transpose(pack(T(), weight[0], weight[1]));
    const uint32_t p1 = transpose(pack(T(), weight[2], weight[3]));
#pragma unroll
    for (int j = 0; j < kDim / 64; ++j) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const uint32_t v0 = word(strip.v[j][0], e), v1 = word(strip.v[j][1], e);
        const uint32_t v2 = word(strip.v[j][2], e), v3 = word(strip.v[j][3], e);
        mma(T(), out[j][e],
            {__byte_perm(v0, v1, 0x5410), __byte_perm(v0, v1, 0x7632), __byte_perm(v2, v3, 0x5410),
             __byte_perm(v2, v3, 0x7632)},
            p0, p1);
      }
    }
    if (next < run_end) {
      strip.load_values(next_keys + to_values, head_dim, start - next, run_end - next);
    }
  }

#pragma unroll
  for (int h = 0; h < 2; ++h) {
#pragma unroll
    for (int lanes = 4; lanes < 32; lanes *= 2) total[h] += __shfl_xor_sync(~0u, total[h], lanes);
    if (g == 0) {
      shared.highest[warp][2 * c + h] = maximum[h];
      shared.all[warp][2 * c + h] = total[h];
    }
#pragma unroll
    for (int j = 0; j < kDim / 64; ++j) {
      float4* to = reinterpret_cast<float4*>(&shared.out[warp][2 * c + h][64 * j + 8 * g]);
      to[0] = {out[j][0][h], out[j][0][2 + h], out[j][1][h], out[j][1][2 + h]};
      to[1] = {out[j][2][h], out[j][2][2 + h], out[j][3][h], out[j][3][2 + h]};
    }
  }
  if (has_new) {
    for (int head = warp; head < heads; head += kWarps) {
      float score = 0;
      for (int i = lane; i < kDim; i += 32) {
        score += shared.rows.product(head, i);
      }
      score = warp_sum(score);
      if (lane == 0) shared.new_score[head] = score_of(score);
    }
  }
  __syncthreads();

  // The block's result: the warps', then the new token's.
  const int units = heads * kDim / 4;
  for (int unit = threadIdx.x; unit < units; unit += kThreads) {
    const int head = unit / (kDim / 4), dim = unit % (kDim / 4) * 4;
    Partial block;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) {
      block.add({*reinterpret_cast<const float4*>(&shared.out[w][head][dim]),
                 shared.highest[w][head], shared.all[w][head]});
    }
    if (has_new) {
      const T* value = shared.rows.value() + dim;
      block.add({{to_float(value[0]), to_float(value[1]), to_float(value[2]), to_float(value[3])},
                 shared.new_score[head],
                 1});
    }
    *reinterpret_cast<float4*>(&shared.out[0][head][dim]) = block.sum;
    if (dim == 0) {
      shared.block_highest[head] = block.highest;
      shared.block_all[head] = block.all;
    }
  }
  cluster_arrive();
  cluster_wait();

  // The cluster's result, of which this block merges every cluster-th slice.
  const int part = lane % 8;
  const int64_t pair = int64_t{row} * gridDim.y + blockIdx.y;
  float* parts = a.workspace + pair * (runs / cluster) * kPartFloats * kDim;
  T* row_out =
      static_cast<T*>(a.out) + (int64_t{row} * s.heads + kv_head * group + first_head) * head_dim;
  const auto write_out = [&](int unit, const Partial& p) {
    const int head = unit / (kDim / 4), dim = unit % (kDim / 4) * 4;
    const float x[4] = {p.sum.x, p.sum.y, p.sum.z, p.sum.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (kExact || dim + i < head_dim) {
        row_out[head * head_dim + dim + i] = from_float<T>(x[i] / p.all);
      }
    }
  };
  const Shared<T, kDim>* there = of_block(&shared, min(part, cluster - 1));
  for (int slice = rank * kSliceUnits; slice < units; slice += cluster * kSliceUnits) {
    const int unit = slice + threadIdx.x / 8;
    const int head = unit / (kDim / 4), dim = unit % (kDim / 4) * 4;
    Partial p;
    if (part < cluster && unit < units) {
      p = {*reinterpret_cast<const float4*>(&there->out[0][head][dim]), there->block_highest[head],
           there->block_all[head]};
    }
    p.add_lanes();
    if (part > 0 || unit >= units) continue;
    if (clusters == 1) {
      write_out(unit, p);
    } else {
      float* to = parts + run / cluster * kPartFloats * kDim;
      reinterpret_cast<float4*>(to)[unit] = p.sum;
      reinterpret_cast<float2*>(to + kTileHeads * kDim)[unit] = {p.highest, p.all};
    }
  }
  __syncwarp();
  cluster_arrive();
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
      for (int slice = rank * kSliceUnits; slice < units; slice += cluster * kSliceUnits) {
        const int unit = slice + threadIdx.x / 8;
        Partial p;
        if (unit < units) {
          for (int i = part; i < clusters; i += 8) {
            const float* from = parts + i * kPartFloats * kDim;
            const float2 weights =
                __ldcg(reinterpret_cast<const float2*>(from + kTileHeads * kDim) + unit);
            p.add({__ldcg(reinterpret_cast<const float4*>(from) + unit), weights.x, weights.y});
          }
        }
        __syncwarp();
        p.add_lanes();
        if (part == 0 && unit < units) write_out(unit, p);
      }
    }
  }
  cluster_wait();  // no block leaves while others read its memory
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
  config.attrs = clusters ? attributes : attributes + 1;
  config.numAttrs = (clusters ? 1 : 0) + (a.dependent ? 1 : 0);
  SKALD_CUDA(cudaLaunchKernelEx(&config, attend_decode<T, kDim, kExact>, a, split.min_run));
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
