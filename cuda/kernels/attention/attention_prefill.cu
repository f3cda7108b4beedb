// Prefill attention over the paged cache, for sm_80. Online softmax: no score goes to memory.
//
// Floor: 4 * head_dim operations for each query head, row and key that the row sees. Bytes: q and
// the output once, and a sequence's keys and values once for each tile of its queries, mostly from
// the L2 cache.
//
// Split: a block takes one KV head and one tile of rows, with all query heads that read that KV
// head. The tile's queries are numbered row-major (row, head). A tile of keys is a page. Pages
// beyond the tile's last row or before its first window are skipped, and a page is masked only if a
// mask cuts it. Capped scores have kernels of their own, since the cap takes registers. The page's
// values arrive while scores are computed, the next page's keys while the output is. The tiles with
// the most work start first.
#include <limits>

#include "cuda/kernels/attention/attention.h"
#include "cuda/kernels/attention/attention_split.h"
#include "cuda/kernels/attention/kv_page.cuh"
#include "cuda/kernels/attention/sink.cuh"
#include "cuda/kernels/attention/softcap.cuh"
#include "cuda/kernels/device/launch.cuh"
#include "cuda/kernels/device/mma.cuh"
#include "engine/base/check.h"

namespace skald::cuda {
namespace {

constexpr int kWarps = kPrefillWarps;
constexpr int kThreads = kWarps * 32;

#if SKALD_HAS_MMA

// The address of 8 numbers in rows of kDim 16-bit numbers in shared memory. Groups of 8 numbers
// trade places, so that the same group of 8 rows lies in different banks.
template <int kDim>
__device__ inline uint32_t place(uint32_t base, int row, int eight) {
  return base + row * (kDim * 2) + ((eight ^ (row & 7)) << 4);
}

// Copies row i from at(i) to place(base, i, ·), in the background if head_dim allows. Rows from
// `end` on and numbers from head_dim on become zero. `shared` is what `base` addresses.
template <int kDim, bool kExact, class T, class RowAt>
__device__ inline void fetch(uint32_t base, char* shared, int rows, int end, int head_dim,
                             RowAt at) {
  constexpr int kEights = kDim / 8;
  for (int i = threadIdx.x; i < rows * kEights; i += kThreads) {
    const int row = i / kEights, eight = i % kEights;
    const bool valid = row < end && (kExact || eight * 8 < head_dim);
    const T* from = valid ? at(row) : at(0);
    if (kExact || head_dim % 8 == 0) {
      copy_async(place<kDim>(base, row, eight), from + (valid ? eight * 8 : 0), valid);
    } else {
      *reinterpret_cast<uint4*>(shared + place<kDim>(0, row, eight)) =
          load8<false>(from, eight * 8, head_dim, valid);
    }
  }
}

#endif

template <int kDim>
constexpr int kQueriesPerWarp = queries_per_warp(kDim);

template <class T, int kDim, bool kExact, bool kCapped>
__global__ void __launch_bounds__(kThreads)
    attend_prefill(const __grid_constant__ AttentionLaunch a) {
#if SKALD_HAS_MMA
  constexpr int kBlocks = kQueriesPerWarp<kDim> / 16;  // blocks of 16 queries in a warp
  constexpr int kQueries = kWarps * kBlocks * 16;
  constexpr int kRowBytes = kDim * 2;
  extern __shared__ __align__(128) char shared[];
  char* const shared_q = shared;
  char* const shared_k = shared_q + kQueries * kRowBytes;
  char* const shared_v = shared_k + kPageTokens * kRowBytes;
  const uint32_t q_at = shared_address(shared_q), k_at = shared_address(shared_k);
  const uint32_t v_at = shared_address(shared_v);

  let_next_kernel_start();
  const AttentionSpec& s = a.spec;
  const AttentionTile tile = a.prefill.tiles[blockIdx.x / s.kv_heads];
  if (tile.rows == 0) return;
  const int kv_head = blockIdx.x % s.kv_heads;
  const int head_dim = kExact ? kDim : s.head_dim;
  const int group = s.heads / s.kv_heads, queries = tile.rows * group;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, c = lane % 4;
  const int first_position = a.step.positions[tile.row];
  const int last_position = first_position + tile.rows - 1;
  const int first_page = window_start(s, first_position) / kPageTokens;
  const int end_page = last_position / kPageTokens + 1;
  const int32_t* pages = pages_of(a, tile.row);
  const int64_t to_values = keys_to_values(s);

  wait_for_kernel_ahead();
  const int row_numbers = row_heads(a) * head_dim;
  const T* q = static_cast<const T*>(a.qkv) + int64_t{tile.row} * row_numbers +
               int64_t{kv_head} * group * head_dim;
  fetch<kDim, kExact, T>(q_at, shared_q, kQueries, queries, head_dim, [&](int i) {
    const int row = i / group;
    return q + int64_t{row} * row_numbers + (i - row * group) * head_dim;
  });
  const auto fetch_page = [&](uint32_t base, char* to, int page, int64_t offset) {
    const T* from = page_keys<T>(a, pages[page], kv_head) + offset;
    fetch<kDim, kExact, T>(base, to, kPageTokens, last_position + 1 - page * kPageTokens, head_dim,
                           [&](int i) { return from + i * head_dim; });
  };
  fetch_page(k_at, shared_k, first_page, 0);
  commit_copies();

  // The positions of this lane's queries. Queries beyond the tile see no key.
  int position[kBlocks][2];
#pragma unroll
  for (int b = 0; b < kBlocks; ++b) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int i = (warp * kBlocks + b) * 16 + h * 8 + g;
      position[b][h] = i < queries ? first_position + i / group : -1;
    }
  }
  const float given_scale = s.scale * kLog2E;
  const float scale = kCapped ? 1 : given_scale;
  float maximum[kBlocks][2], total[kBlocks][2];
  float out[kBlocks][kDim / 8][4];
#pragma unroll
  for (int b = 0; b < kBlocks; ++b) {
#pragma unroll
    for (int h = 0; h < 2; ++h) maximum[b][h] = -INFINITY, total[b][h] = 0;
#pragma unroll
    for (int j = 0; j < kDim / 8; ++j) {
#pragma unroll
      for (int i = 0; i < 4; ++i) out[b][j][i] = 0;
    }
  }

  for (int page = first_page; page < end_page; ++page) {
    wait_for_copies<0>();
    __syncthreads();
    fetch_page(v_at, shared_v, page, to_values);
    commit_copies();

    float score[kBlocks][kPageTokens / 8][4] = {};
#pragma unroll
    for (int k = 0; k < kDim / 16; ++k) {
      uint32_t queries16[kBlocks][4];
#pragma unroll
      for (int b = 0; b < kBlocks; ++b) {
        load_matrices(queries16[b],
                      place<kDim>(q_at, (warp * kBlocks + b) * 16 + lane % 16, 2 * k + lane / 16));
      }
#pragma unroll
      for (int t = 0; t < kPageTokens / 16; ++t) {
        uint32_t keys[4];
        load_matrices(keys,
                      place<kDim>(k_at, t * 16 + lane % 8 + lane / 16 * 8, 2 * k + lane / 8 % 2));
#pragma unroll
        for (int b = 0; b < kBlocks; ++b) {
          mma(T(), score[b][2 * t], queries16[b], keys[0], keys[1]);
          mma(T(), score[b][2 * t + 1], queries16[b], keys[2], keys[3]);
        }
      }
    }
    wait_for_copies<0>();
    __syncthreads();
    if (page + 1 < end_page) {
      fetch_page(k_at, shared_k, page + 1, 0);
      commit_copies();
    }

    if constexpr (kCapped) {
#pragma unroll
      for (int b = 0; b < kBlocks; ++b) {
#pragma unroll
        for (int t = 0; t < kPageTokens / 8; ++t) {
#pragma unroll
          for (float& x : score[b][t]) x = soft_capped(x * given_scale, s.softcap);
        }
      }
    }
    const int token = page * kPageTokens;
    const bool cut = token + kPageTokens - 1 > first_position ||
                     (s.window > 0 && token <= last_position - s.window);
    if (cut) {
#pragma unroll
      for (int b = 0; b < kBlocks; ++b) {
#pragma unroll
        for (int t = 0; t < kPageTokens / 8; ++t) {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const int key = token + t * 8 + 2 * c + i % 2, query = position[b][i / 2];
            if (key > query || (s.window > 0 && key <= query - s.window)) {
              score[b][t][i] = -INFINITY;
            }
          }
        }
      }
    }
#pragma unroll
    for (int b = 0; b < kBlocks; ++b) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        float higher = maximum[b][h];
#pragma unroll
        for (int t = 0; t < kPageTokens / 8; ++t) {
          higher = fmaxf(higher, fmaxf(score[b][t][2 * h], score[b][t][2 * h + 1]));
        }
        higher = fmaxf(higher, __shfl_xor_sync(~0u, higher, 1));
        higher = fmaxf(higher, __shfl_xor_sync(~0u, higher, 2));
        // A query may have seen no key yet. Then any finite shift will do.
        const float shift = higher == -INFINITY ? 0 : higher * scale;
        const float keep = exp2_fast(maximum[b][h] * scale - shift);
        maximum[b][h] = higher;
        float sum = 0;
#pragma unroll
        for (int t = 0; t < kPageTokens / 8; ++t) {
#pragma unroll
          for (int i = 2 * h; i < 2 * h + 2; ++i) {
            score[b][t][i] = exp2_fast(score[b][t][i] * scale - shift);
            sum += score[b][t][i];
          }
        }
        total[b][h] = total[b][h] * keep + sum;
#pragma unroll
        for (int j = 0; j < kDim / 8; ++j) {
          out[b][j][2 * h] *= keep;
          out[b][j][2 * h + 1] *= keep;
        }
      }
    }
#pragma unroll
    for (int t = 0; t < kPageTokens / 16; ++t) {
      uint32_t weights[kBlocks][4];
#pragma unroll
      for (int b = 0; b < kBlocks; ++b) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const float* two = &score[b][2 * t + i / 2][i % 2 * 2];
          weights[b][i] = pack(T(), two[0], two[1]);
        }
      }
#pragma unroll
      for (int j = 0; j < kDim / 16; ++j) {
        uint32_t values[4];
        load_matrices_transposed(values, place<kDim>(v_at, t * 16 + lane % 16, 2 * j + lane / 16));
#pragma unroll
        for (int b = 0; b < kBlocks; ++b) {
          mma(T(), out[b][2 * j], weights[b], values[0], values[1]);
          mma(T(), out[b][2 * j + 1], weights[b], values[2], values[3]);
        }
      }
    }
  }

  T* rows_out = static_cast<T*>(a.out) + int64_t{tile.row} * s.heads * head_dim +
                int64_t{kv_head} * group * head_dim;
#pragma unroll
  for (int b = 0; b < kBlocks; ++b) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float sum = total[b][h];
      sum += __shfl_xor_sync(~0u, sum, 1);
      sum += __shfl_xor_sync(~0u, sum, 2);
      const int i = (warp * kBlocks + b) * 16 + h * 8 + g;
      if (i >= queries) continue;
      const int row = i / group;
      sum += sink_weight(a, kv_head * group + i - row * group, maximum[b][h] * scale);
      T* to = rows_out + int64_t{row} * s.heads * head_dim + (i - row * group) * head_dim;
#pragma unroll
      for (int j = 0; j < kDim / 8; ++j) {
        const int dim = j * 8 + 2 * c;
        if (kExact || dim < head_dim) {
          *reinterpret_cast<uint32_t*>(to + dim) =
              pack(T(), out[b][j][2 * h] / sum, out[b][j][2 * h + 1] / sum);
        }
      }
    }
  }
#endif
}

template <class T, int kDim, bool kExact, bool kCapped = false>
void launch_prefill(const AttentionLaunch& a, Stream stream) {
  constexpr int kRows = kWarps * kQueriesPerWarp<kDim> + 2 * kPageTokens;
  constexpr int kBytes = kRows * kDim * 2;
  const auto kernel = attend_prefill<T, kDim, kExact, kCapped>;
  SKALD_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
  launch_kernel(kernel, {dim3(a.prefill.count * a.spec.kv_heads), kThreads, kBytes, a.dependent},
                stream, a);
}

template <class T>
void launch_prefill(const AttentionLaunch& a, Stream stream) {
  const int head_dim = a.spec.head_dim;
  if (a.spec.softcap != 0) {
    // No known model caps heads of 64 dimensions or less, so they have no kernel of their own.
    if (head_dim <= 128) return launch_prefill<T, 128, false, true>(a, stream);
    if (head_dim < 256) return launch_prefill<T, 256, false, true>(a, stream);
    return launch_prefill<T, 256, true, true>(a, stream);
  }
  if (head_dim == 64) return launch_prefill<T, 64, true>(a, stream);
  if (head_dim == 128) return launch_prefill<T, 128, true>(a, stream);
  if (head_dim < 64) return launch_prefill<T, 64, false>(a, stream);
  if (head_dim < 128) return launch_prefill<T, 128, false>(a, stream);
  if (head_dim <= 192) return launch_prefill<T, 192, false>(a, stream);
  if (head_dim < 256) return launch_prefill<T, 256, false>(a, stream);
  return launch_prefill<T, 256, true>(a, stream);
}

}  // namespace

void launch_attention_prefill(const AttentionLaunch& a, Stream stream) {
  check_attention(a);
  check(a.code != AttentionCode::Plain && mma_takes(a.spec),
        "attention_prefill multiplies heads of up to 256 dimensions on tensor cores");
  if (a.prefill.count == 0) return;
  if (a.type == DType::F16) {
    launch_prefill<Half>(a, stream);
  } else {
    launch_prefill<Bf16>(a, stream);
  }
}

template <>
void launch_attention<kernel_id("attention_prefill")>(const AttentionLaunch& launch,
                                                      Stream stream) {
  launch_attention_prefill(launch, stream);
}

}  // namespace skald::cuda
