// Routes one row inside the product of the experts' gate and up. Each block computes the logits of
// every gridDim-th expert and sends them to all blocks through global memory; then each block makes
// the same choice. So loads of the chosen experts' weights start some 3 us after the kernel ahead
// has ended: no kernel ends and no other starts in between.
#pragma once

#include "cuda/kernels/device/choice.cuh"
#include "cuda/kernels/device/launch.cuh"
#include "cuda/kernels/device/math.cuh"
#include "cuda/kernels/device/ptx.cuh"
#include "cuda/kernels/gemv_q/one_row.h"
#include "cuda/kernels/gemv_q/stage_one.cuh"

namespace skald::cuda {

// Each stager warp's sums: one of the products with each expert's weights, and the last one of the
// squares of the row.
struct RouterSums {
  float of[kWarps][kMostRoutedByBlock + 1];
};

// All blocks read all logits again and again until the last one is there, and the L2 cache serves
// these reads one after the other. To keep the reads few, a logit is sent as its four bytes alone,
// and a lane reads four logits at once.
__device__ inline void send_logit(uint32_t* to, float logit) {
  const uint32_t bits = isnan(logit) ? 0x7fffffff : __float_as_uint(logit);  // never kNotSent
  asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(to), "r"(bits) : "memory");
}
__device__ inline uint4 load_logits(const uint32_t* from) {
  uint4 four;
  asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(four.x), "=r"(four.y), "=r"(four.z), "=r"(four.w)
               : "l"(from)
               : "memory");
  return four;
}

// The stager warps compute and send the block's logits, before they stage the row. They load the
// router's weights before they wait for the kernel ahead. Every block adds in the same order: the
// columns of a thread, then the lanes of a warp, then the warps.
__device__ inline void send_logits(const LinearLaunch& a, RouterSums& sums) {
  constexpr int kThreads = kWarps * 32, kEach = 4, kAhead = 2;  // float4 of a thread; experts
  constexpr int kChunk = kThreads * kEach;
  const RouterPart& r = a.router;
  const int thread = static_cast<int>(threadIdx.x) % kThreads, warp = thread / 32;
  const int lane = thread % 32;
  const int blocks = static_cast<int>(gridDim.x), block = static_cast<int>(blockIdx.x);
  const int all = r.spec.count + (r.shared_gate ? 1 : 0);  // the gate is one more row
  const int own = (all - block + blocks - 1) / blocks;
  const int fours = static_cast<int>(a.ins / 4);
  const auto load = [&](float4(&to)[kEach], const float* from, int first) {
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int at = first + i * kThreads + thread;
      to[i] = at < fours ? __ldg(reinterpret_cast<const float4*>(from) + at) : float4{};
    }
  };
  const auto row_of = [&](int e) {
    const int row = block + e * blocks;
    return row == r.spec.count ? r.shared_gate : r.weight + int64_t{row} * a.ins;
  };
  float4 norms[kEach], weights[kAhead][kEach] = {};
  const auto load_chunk = [&](int first) {
    load(norms, a.norm_weight, first);
#pragma unroll
    for (int e = 0; e < kAhead; ++e) {
      if (e < own) load(weights[e], row_of(e), first);
    }
  };
  load_chunk(0);
  const auto add_up = [&](bool sends) {
    float squares = 0, products[kMostRoutedByBlock] = {};
    for (int first = 0; first < fours; first += kChunk) {
      float4 x[kEach];
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        const int at = first + i * kThreads + thread;
        x[i] = at < fours ? __ldcg(static_cast<const float4*>(a.in) + at) : float4{};
      }
      if (first > 0) load_chunk(first);
      const auto add = [&](float& sum, const float4& w, const float4& y) {
        sum = fmaf(w.w, y.w, fmaf(w.z, y.z, fmaf(w.y, y.y, fmaf(w.x, y.x, sum))));
      };
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        squares = add_squares(squares, x[i]);
        x[i] = times(x[i], norms[i]);
#pragma unroll
        for (int e = 0; e < kAhead; ++e) add(products[e], weights[e][i], x[i]);
      }
#pragma unroll
      for (int e = kAhead; e < kMostRoutedByBlock; ++e) {
        if (e >= own) break;
        float4 more[kEach];
        load(more, row_of(e), first);
#pragma unroll
        for (int i = 0; i < kEach; ++i) add(products[e], more[i], x[i]);
      }
    }
#pragma unroll
    for (int e = 0; e < kMostRoutedByBlock; ++e) {
      if (e >= own) break;
      const float sum = warp_sum(products[e]);
      if (lane == 0) sums.of[warp][e] = sum;
    }
    squares = warp_sum(squares);
    if (lane == 0) sums.of[warp][kMostRoutedByBlock] = squares;
    named_barrier<1, kThreads>();
    if (thread >= own) return;
    const auto total = [&](int i) {
      float sum = 0;
#pragma unroll
      for (const auto& part : sums.of) sum += part[i];
      return sum;
    };
    const float norm = rsqrtf(total(kMostRoutedByBlock) / static_cast<float>(a.ins) + a.norm_eps);
    const int expert = block + thread * blocks;
    const bool is_gate = expert == r.spec.count;
    const float bias = r.bias && !is_gate ? __ldg(r.bias + expert) : 0;
    const float logit = total(thread) * norm + bias;
    const float gated = gated_logit(logit, is_gate ? Gating::Sigmoid : r.spec.gating);
    if (sends) send_logit(r.logits + (is_gate ? kSharedLogit : expert), gated);
  };
  // The first pass runs before the wait, on whatever numbers the memory holds: it loads the code,
  // since code that runs for the first time is slow.
#pragma unroll 1
  for (int pass = 0;; ++pass) {
    if (pass > 0) wait_for_kernel_ahead();
    add_up(pass > 0);
    if (pass > 0) return;
    if (fours > kChunk) load_chunk(0);
    named_barrier<1, kThreads>();
  }
}

// Resets the logits for the next step. A warp calls it when no block reads them any more.
__device__ inline void clear_logits(const RouterPart& r) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int i = lane; i < r.spec.count; i += 32) r.logits[i] = kNotSent;
  if (lane == 0) r.logits[kSharedLogit] = kNotSent;
}

// Writes the weight of the expert that every row has, behind those of the chosen ones. A warp calls
// it.
__device__ inline void store_shared_weight(const RouterPart& r) {
  if (threadIdx.x % 32 != 0) return;
  float weight = 1;
  if (r.shared_gate) {
    uint32_t bits;
    do {
      bits = load_relaxed(r.logits + kSharedLogit);
    } while (bits == kNotSent);
    weight = __uint_as_float(bits);
  }
  r.weights[r.spec.used] = weight;
}

// Waits for all logits, chooses, and calls fn with the choice. A warp calls it. Routers of up to
// 128 experts need less code, and so less time. warms_up: all of it also runs once before, on
// whatever numbers the memory holds, while the kernel ahead still runs. This loads the code, since
// code that runs for the first time is slow.
template <int kEach, class Fn>
__device__ void receive_choice_of(const RouterPart& r, bool warms_up, const Fn& fn) {
#pragma unroll 1
  for (int pass = warms_up ? 0 : 1; pass < 2; ++pass) {
    // The kernels ahead have cleared the logits of the layer before.
    if (pass > 0) wait_for_kernel_ahead();
    Choice<kEach> choice(r.spec.count);
    bool there;
    do {
      there = true;
#pragma unroll
      for (int i = 0; i < kEach; i += 4) {
        const uint4 four = load_logits(r.logits + choice.expert(i));
        const uint32_t bits[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          choice.logits[i + j] = __uint_as_float(bits[j]);
          there &= bits[j] != kNotSent || choice.expert(i + j) >= r.spec.count;
        }
      }
    } while (pass > 0 && !__all_sync(~0u, there));
    choice.choose(r.spec.used, r.choice_bias);
    fn(choice);
  }
}
template <class Fn>
__device__ void receive_choice(const RouterPart& r, bool warms_up, const Fn& fn) {
  r.spec.count <= 128 ? receive_choice_of<4>(r, warms_up, fn)
                      : receive_choice_of<kMostRouted / 32>(r, warms_up, fn);
}

}  // namespace skald::cuda
