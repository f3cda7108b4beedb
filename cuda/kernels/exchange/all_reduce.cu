// all_reduce: each block sends its numbers to all other ranks, then a flag, waits for their flags,
// and adds. all_reduce_few: each thread sends two numbers, each with a flag in the same 8 bytes,
// which arrive together; so no thread waits for another of its rank. Twice the bytes, but one trip
// instead of two. Floor: a write to another GPU, about 1 us, or (ranks - 1) * bytes / the links'
// rate.
#include <algorithm>

#include "cuda/kernels/device/launch.cuh"
#include "cuda/kernels/exchange/all_reduce.h"

namespace skald::cuda {
namespace {

constexpr int kThreads = 512;
constexpr int kFewestFloats = 2048;  // of a block of all_reduce
constexpr int kWords = static_cast<int>(MailLayout::kBlockFloats / 4 / kThreads);  // of a thread
// Between two looks at `aborted`, some 50 ms. It lies behind the host's link, where the reads of
// thousands of threads take 0.3 ms: that would make the other rank wait, and look too.
constexpr int kSpins = 1 << 16;

__device__ inline void raise_flag(uint32_t* flag, uint32_t letter) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" : : "l"(flag), "r"(letter) : "memory");
}

__device__ inline uint32_t look_at(const uint32_t* flag) {
  uint32_t value;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
  return value;
}

__device__ inline void wait_for(const uint32_t* flag, uint32_t letter, const uint32_t* aborted) {
  // The sender may be one letter further.
  for (int spins = 1; static_cast<int>(look_at(flag) - letter) < 0; ++spins) {
    if (spins % kSpins == 0 && look_at(aborted) != 0) return;
  }
}

__device__ inline float4 load(const float* from, int64_t left) {
  if (left >= 4) return *reinterpret_cast<const float4*>(from);
  float4 value = {};
  float* const numbers = &value.x;
  for (int i = 0; i < left; ++i) numbers[i] = from[i];
  return value;
}

__device__ inline void store(float* to, float4 value, int64_t left) {
  if (left >= 4) {
    *reinterpret_cast<float4*>(to) = value;
    return;
  }
  const float* const numbers = &value.x;
  for (int i = 0; i < left; ++i) to[i] = numbers[i];
}

__device__ inline float4 plus(float4 a, float4 b) {
  return {a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w};
}

__device__ inline float4 plus_scaled(float4 a, float scale, float4 b) {
  return {fmaf(scale, b.x, a.x), fmaf(scale, b.y, a.y), fmaf(scale, b.z, a.z),
          fmaf(scale, b.w, a.w)};
}

__device__ inline void send_pair(MailPair* to, float2 pair, uint32_t letter) {
  asm volatile("st.volatile.global.v4.u32 [%0], {%1, %2, %3, %4};"
               :
               : "l"(to), "r"(__float_as_uint(pair.x)), "r"(letter), "r"(__float_as_uint(pair.y)),
                 "r"(letter)
               : "memory");
}

__device__ inline float2 receive_pair(const MailPair* from, uint32_t letter,
                                      const uint32_t* aborted) {
  uint4 value;
  for (int spins = 1;; ++spins) {
    asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
                 : "l"(from)
                 : "memory");
    if (value.y == letter && value.w == letter) break;
    if (spins % kSpins == 0 && look_at(aborted) != 0) break;
  }
  return {__uint_as_float(value.x), __uint_as_float(value.z)};
}

__global__ void __launch_bounds__(MailLayout::kFewThreads)
    all_reduce_few(__grid_constant__ const AllReduceLaunch a) {
  let_next_kernel_start();
  wait_for_kernel_ahead();
  const MailLinks& mail = a.mail;
  const int block = static_cast<int>(blockIdx.x);
  uint32_t* const sent = mail.sent + MailLayout::kBlocks + block;
  const uint32_t letter = *sent + 1;
  const int64_t pair = int64_t{block} * MailLayout::kFewThreads + threadIdx.x, first = pair * 2;
  if (first < a.count) {
    const bool both = first + 1 < a.count;
    const auto place_of = [&](int receiver, int sender) {
      const int64_t place = int64_t{letter & 1} * mail.ranks + sender;
      return mail.few[receiver] + place * (MailLayout::kFewFloats / 2) + pair;
    };
    const float2 own = {a.in[first], both ? a.in[first + 1] : 0};
    for (int hop = 1; hop < mail.ranks; ++hop) {
      send_pair(place_of((mail.rank + hop) % mail.ranks, mail.rank), own, letter);
    }
    float2 before = {};
    if (a.adds) before = {a.out[first], both ? a.out[first + 1] : 0};
    float2 sum;
    for (int rank = 0; rank < mail.ranks; ++rank) {
      const float2 part =
          rank == mail.rank ? own : receive_pair(place_of(mail.rank, rank), letter, mail.aborted);
      sum = rank == 0 ? part : float2{sum.x + part.x, sum.y + part.y};
    }
    if (a.adds) sum = {fmaf(a.scale, sum.x, before.x), fmaf(a.scale, sum.y, before.y)};
    a.out[first] = sum.x;
    if (both) a.out[first + 1] = sum.y;
  }
  __syncthreads();
  if (threadIdx.x == 0) *sent = letter;
}

// `share` floats of a block at a time.
__global__ void __launch_bounds__(kThreads, 2)
    all_reduce(__grid_constant__ const AllReduceLaunch a, int share) {
  let_next_kernel_start();
  wait_for_kernel_ahead();
  const MailLinks& mail = a.mail;
  const int block = static_cast<int>(blockIdx.x), thread = static_cast<int>(threadIdx.x);
  const auto place_of = [&](int receiver, int sender, uint32_t letter) {
    const int64_t place = (int64_t{letter & 1} * mail.ranks + sender) * MailLayout::kBlocks + block;
    return mail.blocks[receiver] + place * MailLayout::kBlockFloats;
  };
  uint32_t letter = mail.sent[block];
  for (int64_t first = int64_t{block} * share; first < a.count;
       first += int64_t{gridDim.x} * share) {
    ++letter;
    const int64_t end = min(first + share, a.count);
    float4 own[kWords];
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      const int at = (i * kThreads + thread) * 4;
      if (at < share && first + at < end) own[i] = load(a.in + first + at, end - first - at);
    }
    for (int hop = 1; hop < mail.ranks; ++hop) {
      const int receiver = (mail.rank + hop) % mail.ranks;
      float* const place = place_of(receiver, mail.rank, letter);
#pragma unroll
      for (int i = 0; i < kWords; ++i) {
        const int at = (i * kThreads + thread) * 4;
        if (at < share && first + at < end) *reinterpret_cast<float4*>(place + at) = own[i];
      }
    }
    __syncthreads();
    if (thread < mail.ranks && thread != mail.rank) {
      raise_flag(mail.flags[thread] + mail.rank * MailLayout::kBlocks + block, letter);
      wait_for(mail.flags[mail.rank] + thread * MailLayout::kBlocks + block, letter, mail.aborted);
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      const int at = (i * kThreads + thread) * 4;
      if (at >= share || first + at >= end) continue;
      float4 sum;
      for (int rank = 0; rank < mail.ranks; ++rank) {
        const float* const place = place_of(mail.rank, rank, letter);
        const float4 part =
            rank == mail.rank ? own[i] : __ldcv(reinterpret_cast<const float4*>(place + at));
        sum = rank == 0 ? part : plus(sum, part);
      }
      float* const out = a.out + first + at;
      const int64_t left = end - first - at;
      store(out, a.adds ? plus_scaled(load(out, left), a.scale, sum) : sum, left);
    }
  }
  if (thread == 0) mail.sent[block] = letter;
}

}  // namespace

void launch_all_reduce(const AllReduceLaunch& a, Stream stream) {
  if (a.count <= MailLayout::kFewFloats) {
    constexpr int64_t kEach = int64_t{2} * MailLayout::kFewThreads;
    const dim3 blocks(static_cast<unsigned>((a.count + kEach - 1) / kEach));
    const Grid grid = {blocks, MailLayout::kFewThreads, 0, a.dependent};
    launch_kernel(all_reduce_few, grid, stream, a);
    return;
  }
  constexpr int64_t kWord = 4;
  const int64_t even = (a.count + MailLayout::kBlocks - 1) / MailLayout::kBlocks;
  const int64_t share = std::clamp<int64_t>((even + kWord - 1) / kWord * kWord, kFewestFloats,
                                            MailLayout::kBlockFloats);
  const int64_t blocks = std::min<int64_t>((a.count + share - 1) / share, MailLayout::kBlocks);
  const Grid grid = {dim3(static_cast<unsigned>(blocks)), kThreads, 0, a.dependent};
  launch_kernel(all_reduce, grid, stream, a, static_cast<int>(share));
}

}  // namespace skald::cuda
