// all_reduce: each block sends its numbers to all other ranks, then a flag. It waits for their
// flags, and adds. all_reduce_few: each thread sends two numbers, each with a flag in the same 8
// bytes. These arrive together, so no thread waits for another thread of its rank. This takes twice
// the bytes, but one trip instead of two. Floor: the larger of a write to another GPU, about 1 us,
// and (ranks - 1) * bytes / the links' rate.
#include "cuda/kernels/exchange/all_reduce.h"

#include <cuda_fp16.h>

#include "cuda/kernels/exchange/mail.cuh"

namespace skald::cuda {
namespace {

__device__ inline float4 plus(float4 a, float4 b) {
  return {a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w};
}

__device__ inline float4 plus_scaled(float4 a, float scale, float4 b) {
  return {fmaf(scale, b.x, a.x), fmaf(scale, b.y, a.y), fmaf(scale, b.z, a.z),
          fmaf(scale, b.w, a.w)};
}

// How numbers lie in a letter: as they are. A thread writes four.
struct Floats {
  using Word = float4;
  static constexpr int kUnit = 4;
  static constexpr int kMost = static_cast<int>(MailLayout::kBlockFloats);

  static __device__ Word pack(float4 numbers) { return numbers; }
  static __device__ float4 unpack(Word word) { return word; }
  static __device__ void write(float* place, int at, Word word) {
    *reinterpret_cast<float4*>(place + at) = word;
  }
  static __device__ Word read(const float* place, int at) {
    return __ldcv(reinterpret_cast<const float4*>(place + at));
  }
};

// 128 numbers, those of a warp, as f16 times a power of 2 that brings the largest to 2^14 or more.
// So no number is too large for f16, and the largest ones keep 11 bits.
struct Halves {
  struct Word {
    uint2 halves;
    float scale;
  };
  static constexpr int kUnit = 128;
  // A letter has the halves of all its numbers, and then the scales.
  static constexpr int kMost = 7 * 4 * kMailThreads;
  static_assert(kMost * 2 + kMost / kUnit * 4 <= MailLayout::kBlockFloats * 4);

  static __device__ Word pack(float4 x) {
    const uint32_t own =
        __float_as_uint(fmaxf(fmaxf(fabsf(x.x), fabsf(x.y)), fmaxf(fabsf(x.z), fabsf(x.w))));
    uint32_t most = own;
#pragma unroll
    for (int lane = 16; lane > 0; lane /= 2) most = max(most, __shfl_xor_sync(~0u, most, lane));
    // Exponents of floats are stored plus 127. Numbers below 2^-112 count as that.
    const int exponent = max(static_cast<int>(most >> 23), 15);
    const float factor = __uint_as_float(static_cast<uint32_t>(268 - exponent) << 23);
    const __half2 low = __floats2half2_rn(x.x * factor, x.y * factor);
    const __half2 high = __floats2half2_rn(x.z * factor, x.w * factor);
    return {{*reinterpret_cast<const uint32_t*>(&low), *reinterpret_cast<const uint32_t*>(&high)},
            __uint_as_float(static_cast<uint32_t>(exponent - 14) << 23)};
  }
  static __device__ float4 unpack(Word word) {
    const float2 low = __half22float2(*reinterpret_cast<const __half2*>(&word.halves.x));
    const float2 high = __half22float2(*reinterpret_cast<const __half2*>(&word.halves.y));
    return {low.x * word.scale, low.y * word.scale, high.x * word.scale, high.y * word.scale};
  }
  static __device__ void write(float* place, int at, Word word) {
    reinterpret_cast<uint2*>(place)[at / 4] = word.halves;
    if (at % kUnit == 0) place[kMost / 2 + at / kUnit] = word.scale;
  }
  static __device__ Word read(const float* place, int at) {
    return {__ldcv(reinterpret_cast<const uint2*>(place) + at / 4),
            __ldcv(place + kMost / 2 + at / kUnit)};
  }
};

__global__ void __launch_bounds__(MailLayout::kFewThreads)
    all_reduce_few(__grid_constant__ const AllReduceLaunch a) {
  let_next_kernel_start();
  wait_for_kernel_ahead();
  const MailLinks& mail = a.mail;
  const PairRoute route(mail);
  const int64_t first = route.pair() * 2;
  if (first < a.count) {
    const bool both = first + 1 < a.count;
    const float2 own = {a.in[first], both ? a.in[first + 1] : 0};
    route.send(own);
    float2 before = {};
    if (a.adds) before = {a.out[first], both ? a.out[first + 1] : 0};
    float2 sum;
    for (int rank = 0; rank < mail.ranks; ++rank) {
      const float2 part = rank == mail.rank ? own : route.receive(rank);
      sum = rank == 0 ? part : float2{sum.x + part.x, sum.y + part.y};
    }
    if (a.adds) sum = {fmaf(a.scale, sum.x, before.x), fmaf(a.scale, sum.y, before.y)};
    a.out[first] = sum.x;
    if (both) a.out[first + 1] = sum.y;
  }
  route.end();
}

// `share` numbers of a block in a letter.
template <class Form>
__global__ void __launch_bounds__(kMailThreads, 2)
    all_reduce(__grid_constant__ const AllReduceLaunch a, int share) {
  let_next_kernel_start();
  wait_for_kernel_ahead();
  constexpr int kWords = Form::kMost / 4 / kMailThreads;  // of a thread
  const MailLinks& mail = a.mail;
  MailRoute route(mail);
  for (int64_t first = int64_t{blockIdx.x} * share; first < a.count;
       first += int64_t{gridDim.x} * share) {
    route.next_letter();
    const int64_t end = min(first + share, a.count);
    // Word i of the thread, if the share has it. Whole warps have it or do not.
    const auto place_of = [&](int i) {
      return (i * kMailThreads + static_cast<int>(threadIdx.x)) * 4;
    };
    const auto has = [&](int i) { return place_of(i) < share; };
    typename Form::Word own[kWords];
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      if (has(i))
        own[i] = Form::pack(load_four(a.in + first + place_of(i), end - first - place_of(i)));
    }
    for (int hop = 1; hop < mail.ranks; ++hop) {
      float* const place = route.place((mail.rank + hop) % mail.ranks, mail.rank);
#pragma unroll
      for (int i = 0; i < kWords; ++i) {
        if (has(i) && first + place_of(i) / Form::kUnit * Form::kUnit < end) {
          Form::write(place, place_of(i), own[i]);
        }
      }
    }
    route.exchange();
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      const int64_t left = end - first - place_of(i);
      if (!has(i) || left <= 0) continue;
      float4 sum;
      for (int rank = 0; rank < mail.ranks; ++rank) {
        const float4 part = Form::unpack(
            rank == mail.rank ? own[i] : Form::read(route.place(mail.rank, rank), place_of(i)));
        sum = rank == 0 ? part : plus(sum, part);
      }
      float* const out = a.out + first + place_of(i);
      store_four(out, a.adds ? plus_scaled(load_four(out, left), a.scale, sum) : sum, left);
    }
  }
  route.end();
}

template <class Form>
void launch_many(const AllReduceLaunch& a, Stream stream) {
  const MailShares shares(a.count, Form::kUnit, Form::kMost);
  const Grid grid = {dim3(static_cast<unsigned>(shares.blocks)), kMailThreads, 0, a.dependent};
  launch_kernel(all_reduce<Form>, grid, stream, a, shares.share);
}

template <class Kernel>
void load(Kernel kernel) {
  cudaFuncAttributes attributes;
  SKALD_CUDA(cudaFuncGetAttributes(&attributes, kernel));
}

}  // namespace

void load_all_reduce() {
  load(all_reduce_few);
  load(all_reduce<Floats>);
  load(all_reduce<Halves>);
}

void launch_all_reduce(const AllReduceLaunch& a, Stream stream) {
  if (a.count > MailLayout::kFewFloats) {
    a.rounds ? launch_many<Halves>(a, stream) : launch_many<Floats>(a, stream);
    return;
  }
  constexpr int64_t kEach = int64_t{2} * MailLayout::kFewThreads;
  const dim3 blocks(static_cast<unsigned>((a.count + kEach - 1) / kEach));
  launch_kernel(all_reduce_few, {blocks, MailLayout::kFewThreads, 0, a.dependent}, stream, a);
}

}  // namespace skald::cuda
