// Prefill attention with Hopper's warpgroup products; what it computes and how it is split is what
// attention_prefill.cu says.
//
// A block: three warpgroups of 64 queries each, and one that fetches pages into a ring of slots,
// keys and values in turn, up to kSlots ahead. Each warpgroup has the scores of the next page and
// the output of this one under way together, and softmax in between; the three drift apart, so that
// one computes while another multiplies. The ring's copies are cp.async: pages are scattered, and
// the products want rows swizzled, which bulk copies without a tensor map cannot do.
#include "cuda/kernels/attention.h"
#include "cuda/kernels/built_for.h"
#include "cuda/kernels/device/kv_page.cuh"
#include "cuda/kernels/device/launch.cuh"
#include "cuda/kernels/device/mma.cuh"
#include "cuda/kernels/device/softcap.cuh"
#include "cuda/kernels/device/wgmma.cuh"

namespace skald::cuda {
namespace {

constexpr int kGroups = 3;  // of 128 threads, beside the one that fetches
constexpr int kThreads = kGroups * 128 + 128;
constexpr int kSlots = 6;
static_assert(kWgmmaQueries == kGroups * 64);

template <int kDim>
constexpr int kPageBytes = kPageTokens* kDim * 2;
template <int kDim>
constexpr int kSharedBytes = kWgmmaQueries* kDim * 2 + kSlots* kPageBytes<kDim> + 1024;

#if SKALD_HAS_WGMMA

constexpr int kLag =
    3;  // items that the fetching warpgroup has under way before it waits for the oldest
constexpr int kRowBytes = 128;  // 64 dimensions; larger heads are several such matrices
constexpr int kGroupRows = 8 * kRowBytes;
// A thread's, of 128 at launch: kGroups * kRegisters + kFetchRegisters = 4 * 128.
constexpr int kRegisters = 152, kFetchRegisters = 56;

// Unit `eight` (16 bytes) of a row, in matrices of `rows` rows.
__device__ inline uint32_t place(uint32_t base, int rows, int row, int eight) {
  return base + eight / 8 * (rows * kRowBytes) + row * kRowBytes + (((eight ^ row) & 7) << 4);
}

struct Softmax {
  float maximum[2] = {-INFINITY, -INFINITY};
  float total[2] = {0, 0};  // of this lane's keys only
  float keep[2];            // what the output so far is to be multiplied by

  // Scores become weights.
  __device__ void update(float (&score)[32], float scale) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float higher = maximum[h];
#pragma unroll
      for (int t = 0; t < 8; ++t) {
        higher = fmaxf(higher, fmaxf(score[4 * t + 2 * h], score[4 * t + 2 * h + 1]));
      }
      higher = fmaxf(higher, __shfl_xor_sync(~0u, higher, 1));
      higher = fmaxf(higher, __shfl_xor_sync(~0u, higher, 2));
      // A query may see nothing yet: then any finite number serves.
      const float shift = higher == -INFINITY ? 0 : higher * scale;
      keep[h] = exp2_fast(maximum[h] * scale - shift);
      maximum[h] = higher;
      float sum = 0;
#pragma unroll
      for (int t = 0; t < 8; ++t) {
#pragma unroll
        for (int i = 4 * t + 2 * h; i < 4 * t + 2 * h + 2; ++i) {
          score[i] = exp2_fast(score[i] * scale - shift);
          sum += score[i];
        }
      }
      total[h] = total[h] * keep[h] + sum;
    }
  }
};

template <class T>
__device__ inline void pack_weights(uint32_t (&weights)[4][4], const float (&score)[32]) {
#pragma unroll
  for (int t = 0; t < 4; ++t) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      weights[t][i] = pack(T(), score[8 * t + 2 * i], score[8 * t + 2 * i + 1]);
    }
  }
}

// Scores of a warpgroup's queries with a page's keys; ends in the background.
template <class T, int kDim>
__device__ inline void start_scores(float (&score)[32], uint32_t q_at, uint32_t k_at) {
#pragma unroll
  for (int k = 0; k < kDim / 16; ++k) {
    const uint32_t q = q_at + k / 4 * (kWgmmaQueries * kRowBytes) + k % 4 * 32;
    const uint32_t keys = k_at + k / 4 * (kPageTokens * kRowBytes) + k % 4 * 32;
    wgmma(T(), score, matrix_descriptor(q, kGroupRows, 0), matrix_descriptor(keys, kGroupRows, 0),
          k > 0);
  }
}

template <class T, int kDim>
__device__ inline void start_output(float (&out)[kDim / 2], const uint32_t (&weights)[4][4],
                                    uint32_t v_at) {
#pragma unroll
  for (int t = 0; t < 4; ++t) {
    wgmma(T(), out, weights[t],
          matrix_descriptor(v_at + t * 2 * kGroupRows, kGroupRows, kPageTokens * kRowBytes));
  }
}

#endif

template <class T, int kDim>
__global__ void __launch_bounds__(kThreads, 1)
    attend_wgmma(const __grid_constant__ AttentionLaunch a) {
#if SKALD_HAS_WGMMA
  extern __shared__ char dynamic[];
  __shared__ uint64_t full[kSlots], empty[kSlots];
  const uint32_t q_at = (shared_address(dynamic) + 1023) / 1024 * 1024;
  const uint32_t ring = q_at + kWgmmaQueries * kDim * 2;

  let_next_kernel_start();
  const AttentionSpec& s = a.spec;
  const AttentionTile tile = a.tiles[blockIdx.x / s.kv_heads];
  if (tile.rows == 0) return;
  const int kv_head = blockIdx.x % s.kv_heads;
  const int group = s.heads / s.kv_heads, queries = tile.rows * group;
  const int first_position = a.step.positions[tile.row];
  const int last_position = first_position + tile.rows - 1;
  const int first_page = window_start(s, first_position) / kPageTokens;
  const int end_page = last_position / kPageTokens + 1;
  const int warpgroup = threadIdx.x / 128, lane = threadIdx.x % 32;
  if (threadIdx.x == 0) {
    for (int i = 0; i < kSlots; ++i) {
      barrier_init(&full[i], 128);
      barrier_init(&empty[i], kGroups * 4);
    }
  }
  __syncthreads();
  wait_for_kernel_ahead();

  if (warpgroup == kGroups) {
    set_registers_down<kFetchRegisters>();
    const int32_t* pages = pages_of(a, tile.row);
    const int64_t to_values = keys_to_values(s);
    const int items = 2 * (end_page - first_page);
    const T* keys = nullptr;
    for (int item = 0; item < items + kLag; ++item) {
      if (item < items) {
        const int slot = item % kSlots, page = first_page + item / 2;
        if (item >= kSlots) barrier_wait(&empty[slot], (item / kSlots - 1) & 1);
        if (item % 2 == 0) keys = page_keys<T>(a, pages[page], kv_head);
        const T* from = item % 2 == 0 ? keys : keys + to_values;
        const int end = last_position + 1 - page * kPageTokens;
        const uint32_t to = ring + slot * kPageBytes<kDim>;
#pragma unroll 8
        for (int i = threadIdx.x % 128; i < kPageTokens * kDim / 8; i += 128) {
          const int row = i / (kDim / 8), eight = i % (kDim / 8);
          copy_async(place(to, kPageTokens, row, eight), from + (row < end ? i * 8 : 0), row < end);
        }
      }
      commit_copies();
      if (item >= kLag) {
        wait_for_copies<kLag>();
        fence_for_products();
        barrier_arrive(&full[(item - kLag) % kSlots]);
      }
    }
  } else {
    set_registers_up<kRegisters>();
    // This warpgroup's queries.
    const int row_numbers = (s.heads + 2 * s.kv_heads) * kDim;
    const T* q = static_cast<const T*>(a.qkv) + int64_t{tile.row} * row_numbers +
                 int64_t{kv_head} * group * kDim;
    for (int i = threadIdx.x % 128; i < 64 * (kDim / 8); i += 128) {
      const int query = warpgroup * 64 + i / (kDim / 8), eight = i % (kDim / 8);
      const int row = query / group;
      const bool valid = query < queries;
      const T* from = q + int64_t{row} * row_numbers + (query - row * group) * kDim + eight * 8;
      copy_async(place(q_at, kWgmmaQueries, query, eight), valid ? from : q, valid);
    }
    commit_copies();
    wait_for_copies<0>();
    fence_for_products();
    asm volatile("bar.sync %0, 128;" ::"r"(1 + warpgroup) : "memory");

    const int g = lane / 4, c = lane % 4;
    const int first_query = warpgroup * 64 + threadIdx.x % 128 / 32 * 16 + g;
    // Of this lane's two queries; those beyond the tile see no key.
    const int position[2] = {
        first_query < queries ? first_position + first_query / group : -1,
        first_query + 8 < queries ? first_position + (first_query + 8) / group : -1};
    const int lowest = first_position + warpgroup * 64 / group;
    const uint32_t own_q = q_at + warpgroup * 64 * kRowBytes;
    const float given_scale = s.scale * kLog2E;
    const float scale = s.softcap == 0 ? given_scale : 1;  // of scores that are capped: done
    const auto cap_and_mask = [&](float(&score)[32], int page) {
      if (s.softcap != 0) {
#pragma unroll
        for (float& x : score) x = soft_capped(x * given_scale, s.softcap);
      }
      const int token = page * kPageTokens;
      const bool cut =
          token + kPageTokens - 1 > lowest || (s.window > 0 && token <= last_position - s.window);
      if (!cut) return;
#pragma unroll
      for (int i = 0; i < 32; ++i) {
        const int key = token + i / 4 * 8 + 2 * c + i % 2, query = position[i % 4 / 2];
        if (key > query || (s.window > 0 && key <= query - s.window)) score[i] = -INFINITY;
      }
    };
    const auto wait_item = [&](int item) {
      barrier_wait(&full[item % kSlots], item / kSlots & 1);
      return ring + item % kSlots * kPageBytes<kDim>;
    };
    const auto release_item = [&](int item) {
      if (lane == 0) barrier_arrive(&empty[item % kSlots]);
    };

    Softmax softmax;
    float out[kDim / 2], score[32];
    uint32_t weights[4][4];
#pragma unroll
    for (int i = 0; i < kDim / 2; ++i) out[i] = 0;
    uint32_t k_at = wait_item(0);
    wgmma_fence();
    start_scores<T, kDim>(score, own_q, k_at);
    wgmma_commit();
    wgmma_wait<0>();
    release_item(0);
    cap_and_mask(score, first_page);
    softmax.update(score, scale);
    pack_weights<T>(weights, score);
    int item = 1;  // the values of the page whose weights are ready
    for (int page = first_page + 1; page < end_page; ++page, item += 2) {
      k_at = wait_item(item + 1);
      wgmma_fence();
      start_scores<T, kDim>(score, own_q, k_at);
      wgmma_commit();
      const uint32_t v_at = wait_item(item);
      wgmma_fence();
      start_output<T, kDim>(out, weights, v_at);
      wgmma_commit();
      wgmma_wait<1>();
      release_item(item + 1);
      cap_and_mask(score, page);
      softmax.update(score, scale);
      wgmma_wait<0>();
      release_item(item);
#pragma unroll
      for (int i = 0; i < kDim / 2; ++i) out[i] *= softmax.keep[i / 2 % 2];
      pack_weights<T>(weights, score);
    }
    const uint32_t v_at = wait_item(item);
    wgmma_fence();
    start_output<T, kDim>(out, weights, v_at);
    wgmma_commit();
    wgmma_wait<0>();

    T* rows_out = static_cast<T*>(a.out) + int64_t{tile.row} * s.heads * kDim +
                  int64_t{kv_head} * group * kDim;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float sum = softmax.total[h];
      sum += __shfl_xor_sync(~0u, sum, 1);
      sum += __shfl_xor_sync(~0u, sum, 2);
      const float factor = 1 / sum;
      const int query = first_query + 8 * h, row = query / group;
      if (query >= queries) continue;
      T* to = rows_out + int64_t{row} * s.heads * kDim + (query - row * group) * kDim;
#pragma unroll
      for (int j = 0; j < kDim / 8; ++j) {
        *reinterpret_cast<uint32_t*>(to + j * 8 + 2 * c) =
            pack(T(), out[4 * j + 2 * h] * factor, out[4 * j + 2 * h + 1] * factor);
      }
    }
  }
#endif
}

template <class T, int kDim>
void launch_wgmma(const AttentionLaunch& a, Stream stream) {
  const auto kernel = attend_wgmma<T, kDim>;
  SKALD_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  kSharedBytes<kDim>));
  launch_kernel(kernel,
                {dim3(a.tile_count * a.spec.kv_heads), kThreads, kSharedBytes<kDim>, a.dependent},
                stream, a);
}

}  // namespace

// The code for sm_90a holds the kernel, and other GPUs cannot load it.
bool attention_has_wgmma() {
  cudaFuncAttributes code;
  SKALD_CUDA(cudaFuncGetAttributes(&code, attend_wgmma<Half, 128>));
  return kHasSm90a && code.ptxVersion == 90 && code.binaryVersion == 90;
}

void launch_attention_wgmma(const AttentionLaunch& a, Stream stream) {
  const bool wide = a.spec.head_dim == 128;
  check(wide || a.spec.head_dim == 64, "wgmma attention takes 64 or 128 dimensions");
  if (a.type == DType::F16) {
    wide ? launch_wgmma<Half, 128>(a, stream) : launch_wgmma<Half, 64>(a, stream);
  } else {
    wide ? launch_wgmma<Bf16, 128>(a, stream) : launch_wgmma<Bf16, 64>(a, stream);
  }
}

}  // namespace skald::cuda
