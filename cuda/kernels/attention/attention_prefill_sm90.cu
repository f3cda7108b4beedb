// Prefill attention with Hopper's warpgroup products. attention_prefill.cu says what it computes.
//
// Split: a block for each multiprocessor takes one tile of 128 queries after the other. Two of its
// warpgroups have 64 queries each. A third fetches keys and values into a ring of slots, 128 tokens
// of either at a time, and fetches for the next tile while this one ends. The two take turns at
// products: while one multiplies, the other computes its softmax. The ring is filled by cp.async,
// because pages are scattered and the products want swizzled rows. Bulk copies cannot swizzle
// without a tensor map.
#include <algorithm>

#include "cuda/gpu/kernel_code.h"
#include "cuda/kernels/attention/attention.h"
#include "cuda/kernels/attention/kv_page.cuh"
#include "cuda/kernels/attention/sink.cuh"
#include "cuda/kernels/attention/softcap.cuh"
#include "cuda/kernels/device/launch.cuh"
#include "cuda/kernels/device/mma.cuh"
#include "cuda/kernels/device/wgmma.cuh"
#include "engine/base/check.h"

namespace skald::cuda {
namespace {

constexpr int kGroups = 2;  // computing warpgroups; one more warpgroup fetches
constexpr int kThreads = kGroups * 128 + 128;
constexpr int kBlockTokens = 2 * kPageTokens;
// Slots of the ring. An item fills one: the keys of kBlockTokens tokens, or their values as the
// next item.
constexpr int kSlots = 6;
static_assert(kWgmmaQueries == kGroups * 64 && kWgmmaQueries == kBlockTokens);

template <int kDim>
constexpr int kItemBytes = kBlockTokens* kDim * 2;
template <int kDim>
constexpr int kSharedBytes = (1 + kSlots) * kItemBytes<kDim> + 1024;  // queries, the ring

#if SKALD_HAS_WGMMA

// Items that the fetching warpgroup has under way before it waits for the oldest. A warpgroup that
// waits for keys still uses the values before them. Besides these two slots and kLag others, one
// must be free.
constexpr int kLag = 2;
static_assert(kLag + 2 <= kSlots);
constexpr int kRowBytes = 128;  // 64 dimensions; larger heads are several such matrices
constexpr int kGroupRows = 8 * kRowBytes;
constexpr int kMatrixBytes = kBlockTokens * kRowBytes;
// Registers of a thread, of 168 at launch: kGroups * kRegisters + kFetchRegisters = 3 * 168.
constexpr int kRegisters = 224, kFetchRegisters = 56;

// The address of unit `eight` (16 bytes) of a row.
__device__ inline uint32_t place(uint32_t base, int row, int eight) {
  return base + eight / 8 * kMatrixBytes + row * kRowBytes + (((eight ^ row) & 7) << 4);
}

// The unit of a block's work: a tile and a KV head.
struct Work {
  int row, rows = 0;  // rows: 0 if there is no more work
  int kv_head, first_position, last_position, first_block, end_block;

  // The block's next work. The largest tiles come first. Blocks take them in one order and then in
  // the reverse order, so that all get about the same.
  __device__ Work(const AttentionLaunch& a, int& round) {
    const int blocks = static_cast<int>(gridDim.x), block = static_cast<int>(blockIdx.x);
    while (rows == 0) {
      const int index = round * blocks + (round % 2 == 0 ? block : blocks - 1 - block);
      if (index >= a.prefill.count * a.spec.kv_heads) return;
      ++round;
      const AttentionTile tile = a.prefill.tiles[index / a.spec.kv_heads];
      row = tile.row;
      rows = tile.rows;
      kv_head = index % a.spec.kv_heads;
    }
    first_position = a.step.positions[row];
    last_position = first_position + rows - 1;
    first_block = window_start(a.spec, first_position) / kBlockTokens;
    end_block = last_position / kBlockTokens + 1;
  }
};

// The ring of items. Each warpgroup keeps its own count of items.
template <int kDim>
struct Ring {
  uint32_t slots;
  uint64_t *full, *empty;

  __device__ uint32_t slot(int item) const { return slots + item % kSlots * kItemBytes<kDim>; }
  __device__ uint32_t wait(int item) const {
    barrier_wait(&full[item % kSlots], item / kSlots & 1);
    return slot(item);
  }
  __device__ void release(int item) const {
    if (threadIdx.x % 32 == 0) barrier_arrive(&empty[item % kSlots]);
  }
};

// The work of the fetching warpgroup.
template <class T, int kDim>
__device__ inline void fetch(const AttentionLaunch& a, const Ring<kDim>& ring, Work work,
                             int round) {
  constexpr int kUnits = kDim / 8, kApart = 128 / kUnits;  // distance of a thread's rows
  const int thread = threadIdx.x % 128, first_row = thread / kUnits;
  const int own_place = place(0, first_row, thread % kUnits);
  const int64_t to_values = keys_to_values(a.spec);
  int item = 0;
  const auto publish = [&] {
    commit_copies();
    if (item >= kLag) {
      wait_for_copies<kLag>();
      fence_for_products();
      barrier_arrive(&ring.full[(item - kLag) % kSlots]);
    }
    ++item;
  };
  for (; work.rows > 0; work = Work(a, round)) {
    const int32_t* pages = pages_of(a, work.row);
    const int last_page = work.last_position / kPageTokens;
    for (int block = work.first_block; block < work.end_block; ++block) {
      const T* from[2];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int page = pages[min(2 * block + half, last_page)];
        from[half] = page_keys<T>(a, page, work.kv_head) + thread * 8;
      }
      // This thread's rows from `end` on have no token.
      const int end = work.last_position + 1 - block * kBlockTokens - first_row;
      for (int values = 0; values < 2; ++values) {
        if (item >= kSlots) barrier_wait(&ring.empty[item % kSlots], (item / kSlots - 1) & 1);
        const uint32_t to = ring.slot(item) + own_place;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const T* page = from[half] + (values ? to_values : 0);
#pragma unroll
          for (int i = 0; i < kPageTokens; i += kApart) {
            const int row = half * kPageTokens + i;
            copy_async(to + row * kRowBytes, page + i * kDim, row < end);
          }
        }
        publish();
      }
    }
  }
  for (int i = 0; i < kLag; ++i) publish();
}

struct Softmax {
  float maximum[2] = {-INFINITY, -INFINITY};
  float total[2] = {0, 0};  // over this lane's keys alone
  float keep[2];            // the factor of the output so far

  // Turns scores into softmax weights.
  __device__ void update(float (&score)[64], float scale) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float higher = maximum[h];
#pragma unroll
      for (int t = 0; t < 16; ++t) {
        higher = fmaxf(higher, fmaxf(score[4 * t + 2 * h], score[4 * t + 2 * h + 1]));
      }
      higher = fmaxf(higher, __shfl_xor_sync(~0u, higher, 1));
      higher = fmaxf(higher, __shfl_xor_sync(~0u, higher, 2));
      // A query that has seen no key yet has the maximum -infinity, which would give NaN below. All
      // its scores are -infinity, so 0 in its place gives weights of 0.
      const float finite = higher == -INFINITY ? 0 : higher, shift = finite * scale;
      keep[h] = exp2_fast((maximum[h] - finite) * scale);
      maximum[h] = higher;
      float sum = 0;
#pragma unroll
      for (int t = 0; t < 32; ++t) {
        float& x = score[t / 2 * 4 + 2 * h + t % 2];
        x = exp2_fast(x * scale - shift);
        sum += x;
      }
      total[h] = total[h] * keep[h] + sum;
    }
  }
};

template <class T>
__device__ inline void pack_weights(uint32_t (&weights)[8][4], const float (&score)[64]) {
#pragma unroll
  for (int i = 0; i < 32; ++i) weights[i / 4][i % 4] = pack(T(), score[2 * i], score[2 * i + 1]);
}

// Starts the products of a warpgroup's queries and a block's keys. They end in the background.
template <class T, int kDim>
__device__ inline void start_scores(float (&score)[64], uint32_t q_at, uint32_t k_at) {
#pragma unroll
  for (int k = 0; k < kDim / 16; ++k) {
    const uint32_t at = k / 4 * kMatrixBytes + k % 4 * 32;
    wgmma(T(), score, matrix_descriptor(q_at + at, kGroupRows, 0),
          matrix_descriptor(k_at + at, kGroupRows, 0), k > 0);
  }
  wgmma_commit();
}

template <class T, int kDim>
__device__ inline void start_output(float (&out)[kDim / 2], const uint32_t (&weights)[8][4],
                                    uint32_t v_at) {
#pragma unroll
  for (int t = 0; t < 8; ++t) {
    wgmma(T(), out, weights[t],
          matrix_descriptor(v_at + t * 2 * kGroupRows, kGroupRows, kMatrixBytes));
  }
  wgmma_commit();
}

// Named barriers: 0 is __syncthreads(), 1 and 2 belong to a warpgroup each, 3 and 4 are their
// turns.
__device__ inline void synchronize(int warpgroup) {
  asm volatile("bar.sync %0, 128;" ::"r"(1 + warpgroup) : "memory");
}
// A warpgroup waits once for each turn that the other gives. Neither gives a second turn before the
// other has waited for the first.
__device__ inline void wait_for_turn(int warpgroup) {
  asm volatile("bar.sync %0, 256;" ::"r"(1 + kGroups + warpgroup) : "memory");
}
__device__ inline void give_turn(int warpgroup) {
  asm volatile("bar.arrive %0, 256;" ::"r"(1 + kGroups + warpgroup) : "memory");
}

// Starts the copies of a warpgroup's queries.
template <class T, int kDim>
__device__ inline void fetch_queries(const AttentionLaunch& a, const Work& work, int first,
                                     uint32_t to) {
  const AttentionSpec& s = a.spec;
  const int group = s.heads / s.kv_heads, row_numbers = row_heads(a) * kDim;
  const T* q = static_cast<const T*>(a.qkv) + int64_t{work.row} * row_numbers +
               int64_t{work.kv_head} * group * kDim;
  for (int i = threadIdx.x % 128; i < 64 * (kDim / 8); i += 128) {
    const int own = i / (kDim / 8), eight = i % (kDim / 8);
    const int query = first + own, row = query / group;
    const bool valid = row < work.rows;
    const T* from = q + int64_t{row} * row_numbers + (query - row * group) * kDim + eight * 8;
    copy_async(place(to, own, eight), valid ? from : q, valid);
  }
  commit_copies();
}

// The work of a warpgroup that computes, for 64 queries from `first` on. Each lane has two of them,
// 8 apart.
template <class T, int kDim>
__device__ inline void attend(const AttentionLaunch& a, const Ring<kDim>& ring, uint32_t q_at,
                              Work work, int round) {
  const AttentionSpec& s = a.spec;
  const int warpgroup = threadIdx.x / 128, lane = threadIdx.x % 32, c = lane % 4;
  const int group = s.heads / s.kv_heads, first = warpgroup * 64;
  const int first_query = first + threadIdx.x % 128 / 32 * 16 + lane / 4;
  const uint32_t own_q = q_at + first * kRowBytes;
  const float given_scale = s.scale * kLog2E;
  const float scale = s.softcap == 0 ? given_scale : 1;  // capped scores are scaled already
  if (work.rows > 0) fetch_queries<T, kDim>(a, work, first, own_q);
  if (warpgroup == 1) give_turn(0);
  int item = 0;
  while (work.rows > 0) {
    const Work next(a, round);
    // Queries beyond the tile see no key.
    int position[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int row = (first_query + 8 * h) / group;
      position[h] = row < work.rows ? work.first_position + row : -1;
    }
    const int lowest = work.first_position + first / group;
    const auto cap_and_mask = [&](float(&score)[64], int block) {
      if (s.softcap != 0) {
#pragma unroll
        for (float& x : score) x = soft_capped(x * given_scale, s.softcap);
      }
      const int token = block * kBlockTokens;
      const bool cut = token + kBlockTokens - 1 > lowest ||
                       (s.window > 0 && token <= work.last_position - s.window);
      if (!cut) return;
#pragma unroll
      for (int i = 0; i < 64; ++i) {
        const int key = token + i / 4 * 8 + 2 * c + i % 2, query = position[i % 4 / 2];
        if (key > query || (s.window > 0 && key <= query - s.window)) score[i] = -INFINITY;
      }
    };
    wait_for_copies<0>();
    fence_for_products();
    synchronize(warpgroup);

    Softmax softmax;
    float out[kDim / 2], score[64];
    uint32_t weights[8][4];
#pragma unroll
    for (float& x : out) x = 0;
    const uint32_t first_keys = ring.wait(item);
    wgmma_fence();
    start_scores<T, kDim>(score, own_q, first_keys);
    wgmma_wait<0>();
    ring.release(item++);
    cap_and_mask(score, work.first_block);
    softmax.update(score, scale);
    pack_weights<T>(weights, score);
    // From here on `item` is the number of the values whose weights are ready.
    for (int block = work.first_block + 1; block < work.end_block; ++block, item += 2) {
      const uint32_t keys = ring.wait(item + 1);
      wait_for_turn(warpgroup);
      wgmma_fence();
      start_scores<T, kDim>(score, own_q, keys);
      const uint32_t values = ring.wait(item);
      wgmma_fence();
      start_output<T, kDim>(out, weights, values);
      give_turn(1 - warpgroup);
      wgmma_wait<1>();
      ring.release(item + 1);
      cap_and_mask(score, block);
      softmax.update(score, scale);
      wgmma_wait<0>();
      ring.release(item);
      if (__any_sync(~0u, softmax.keep[0] != 1 || softmax.keep[1] != 1)) {
#pragma unroll
        for (int i = 0; i < kDim / 2; ++i) out[i] *= softmax.keep[i / 2 % 2];
      }
      pack_weights<T>(weights, score);
    }
    const uint32_t last_values = ring.wait(item);
    wgmma_fence();
    start_output<T, kDim>(out, weights, last_values);
    synchronize(warpgroup);  // no warp needs this tile's queries any more
    if (next.rows > 0) fetch_queries<T, kDim>(a, next, first, own_q);
    wgmma_wait<0>();
    ring.release(item++);

    T* rows_out = static_cast<T*>(a.out) + int64_t{work.row} * s.heads * kDim +
                  int64_t{work.kv_head} * group * kDim;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float sum = softmax.total[h];
      sum += __shfl_xor_sync(~0u, sum, 1);
      sum += __shfl_xor_sync(~0u, sum, 2);
      const int query = first_query + 8 * h, row = query / group;
      if (row >= work.rows) continue;
      sum += sink_weight(a, work.kv_head * group + query - row * group, softmax.maximum[h] * scale);
      const float factor = 1 / sum;
      T* to = rows_out + int64_t{row} * s.heads * kDim + (query - row * group) * kDim;
#pragma unroll
      for (int j = 0; j < kDim / 8; ++j) {
        *reinterpret_cast<uint32_t*>(to + j * 8 + 2 * c) =
            pack(T(), out[4 * j + 2 * h] * factor, out[4 * j + 2 * h + 1] * factor);
      }
    }
    work = next;
  }
  if (warpgroup == 0) wait_for_turn(0);  // consumes the last turn
}

#endif

template <class T, int kDim>
__global__ void __launch_bounds__(kThreads, 1)
    attend_wgmma(const __grid_constant__ AttentionLaunch a) {
#if SKALD_HAS_WGMMA
  extern __shared__ char dynamic[];
  __shared__ uint64_t full[kSlots], empty[kSlots];
  const uint32_t q_at = (shared_address(dynamic) + 1023) / 1024 * 1024;
  const Ring<kDim> ring = {q_at + kItemBytes<kDim>, full, empty};

  let_next_kernel_start();
  int round = 0;
  const Work first(a, round);
  if (threadIdx.x == 0) {
    for (int i = 0; i < kSlots; ++i) {
      barrier_init(&full[i], 128);
      barrier_init(&empty[i], kGroups * 4);
    }
  }
  __syncthreads();
  wait_for_kernel_ahead();
  if (threadIdx.x / 128 == kGroups) {
    set_registers_down<kFetchRegisters>();
    fetch<T, kDim>(a, ring, first, round);
  } else {
    set_registers_up<kRegisters>();
    attend<T, kDim>(a, ring, q_at, first, round);
  }
#endif
}

template <class T, int kDim>
void launch_wgmma(const AttentionLaunch& a, Stream stream) {
  const auto kernel = attend_wgmma<T, kDim>;
  SKALD_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  kSharedBytes<kDim>));
  const int blocks = std::min(a.multiprocessors, a.prefill.count * a.spec.kv_heads);
  launch_kernel(kernel, {dim3(blocks), kThreads, kSharedBytes<kDim>, a.dependent}, stream, a);
}

}  // namespace

// This file is compiled for sm_90a alone. On other GPUs CUDA reports that it has no code for them.
bool attention_has_wgmma() {
  cudaFuncAttributes code;
  const cudaError_t status = cudaFuncGetAttributes(&code, attend_wgmma<Half, 128>);
  if (status == cudaErrorInvalidDeviceFunction || status == cudaErrorNoKernelImageForDevice) {
    cudaGetLastError();
    return false;
  }
  SKALD_CUDA(status);
  return is_loaded(KernelCode::Sm90a, code.ptxVersion, code.binaryVersion);
}

void launch_attention_wgmma(const AttentionLaunch& a, Stream stream) {
  const bool wide = a.spec.head_dim == 128;
  if (a.prefill.count == 0) return;
  check(wide || a.spec.head_dim == 64, "wgmma attention takes 64 or 128 dimensions");
  if (a.type == DType::F16) {
    wide ? launch_wgmma<Half, 128>(a, stream) : launch_wgmma<Half, 64>(a, stream);
  } else {
    wide ? launch_wgmma<Bf16, 128>(a, stream) : launch_wgmma<Bf16, 64>(a, stream);
  }
}

template <>
void launch_attention<kernel_id("attention_prefill_sm90")>(const AttentionLaunch& launch,
                                                           Stream stream) {
  launch_attention_wgmma(launch, stream);
}

}  // namespace skald::cuda
