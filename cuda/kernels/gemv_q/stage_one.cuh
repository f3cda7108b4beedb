// Writes the activation row to shared memory as digits. If the row is to be normed, only the norm's
// weights are multiplied in here; the finisher multiplies results by the factor that all columns
// share. The stager warps do this, one turn of kStageParts parts after the other, while the
// consumers multiply the digits that are complete.
//
// A scheduler has few warps to hide latency, and code that runs for the first time issues one
// instruction in about four cycles. So little code runs between the end of the kernel ahead and the
// first digits. Asynchronous copies bring the numbers unchanged, and a loop without branches turns
// them into digits. The loop runs once before the wait, on whatever shared memory holds, so that
// its code is in the instruction cache.
#pragma once

#include "cuda/kernels/device/launch.cuh"
#include "cuda/kernels/device/math.cuh"
#include "cuda/kernels/device/mma.cuh"
#include "cuda/kernels/gemv_q/by16_digits.cuh"
#include "cuda/kernels/gemv_q/float_digits.cuh"
#include "cuda/kernels/gemv_q/gemv_q_layout.h"
#include "cuda/kernels/gemv_q/one_row.h"

namespace skald::cuda {

__device__ inline float add_squares(float sum, float4 x) {
  return fmaf(x.w, x.w, fmaf(x.z, x.z, fmaf(x.y, x.y, fmaf(x.x, x.x, sum))));
}
__device__ inline float largest(const float4& x) {
  return fmaxf(fmaxf(fabsf(x.x), fabsf(x.y)), fmaxf(fabsf(x.z), fabsf(x.w)));
}
__device__ inline float4 times(const float4& x, const float4& w) {
  return {x.x * w.x, x.y * w.y, x.z * w.z, x.w * w.w};
}

// Four numbers of shared memory as floats.
__device__ inline void load_four(float4& four, const float* at) {
  four = *reinterpret_cast<const float4*>(at);
}
__device__ inline void load_four(float4& four, const Bf16* at) {
  const uint2 bits = *reinterpret_cast<const uint2*>(at);
  four = {__uint_as_float(bits.x << 16), __uint_as_float(bits.x & 0xffff0000),
          __uint_as_float(bits.y << 16), __uint_as_float(bits.y & 0xffff0000)};
}

template <class F>
using DigitStoreOf =
    std::conditional_t<F::kFloats, FloatDigitStore,
                       std::conditional_t<kBy16<F>, By16DigitStore, DigitStore<F>>>;

template <class F, class T, bool kNormed, bool kExperts>
class StageOne {
  static constexpr int kTogether = 2;  // items of a turn, each two parts
  static constexpr int kEach = kWarpParts<F>;
  static constexpr int kPart = kStagedBytes<F>;
  // The distance of a warp's items, in parts: in the same tile or in the next tile.
  static constexpr int kApart = kEach == 4 ? 2 : kTileParts<F>;
  static_assert(kEach == 4 ? kTileParts<F> == kStageParts : kTileParts<F> * 2 == kStageParts);
  using In = std::conditional_t<kNormed, float, T>;
  static constexpr int kChunks = tiles::kPartCols * sizeof(In) / 256;  // 16-byte chunks per lane

  const LinearLaunch& a_;
  const Layout& layout_;
  const Activations& to_;
  int lane_ = static_cast<int>(threadIdx.x) % 32,
      warp_ = static_cast<int>(threadIdx.x) / 32 % kWarps;
  int first_ = warp_ * kEach + lane_ / 16;  // this lane's part of the first item
  char* part_ = const_cast<char*>(held_pointer(to_.digits + first_ * kPart));
  // The lane has eight columns of a part: four from column_ on, and four from column_ + 16 on.
  int column_ = lane_ % 16 / 4 * 32 + lane_ % 4 * 4;
  DigitStoreOf<F> digits_;

  struct Norms {
    float4 x[kTogether][2];
  };
  __device__ Norms norms(int turn) const {
    Norms weights;
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        const int part = first_ + turn * kStageParts + i * kApart;
        const int at = part * tiles::kPartCols + column_ + 16 * n;
        weights.x[i][n] = {};
        if (at < a_.ins) {
          weights.x[i][n] = __ldg(reinterpret_cast<const float4*>(a_.norm_weight + at));
        }
      }
    }
    return weights;
  }
  // Starts copies of all activations, each part to its place. The first turn's have arrived when it
  // returns.
  __device__ void bring() const {
    constexpr int kNumbers = 16 / sizeof(In);
    const In* in = static_cast<const In*>(a_.in);
    char* to = part_ + lane_ % 16 * 16;
    int at = first_ * tiles::kPartCols + lane_ % 16 * kNumbers;
#pragma unroll 1
    for (int turn = 0; turn < to_.turns; ++turn) {
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
#pragma unroll
        for (int n = 0; n < kChunks; ++n) {
          int from = at + i * kApart * tiles::kPartCols + n * 16 * kNumbers;
          bool valid = from < a_.ins;
          if (is_beside()) {
            const int slot = expert_of(from / tiles::kPartCols);
            const int column = from - slot * layout_.expert_cols;
            from = slot * layout_.expert_ins + column;
            valid = slot < a_.experts.used && column < layout_.expert_ins;
          }
          copy_async(shared_address(to + i * kApart * kPart + n * 256), in + (valid ? from : 0),
                     valid);
        }
      }
      at += kStageParts * tiles::kPartCols;
      to += kStageParts * kPart;
      if (turn == 0) commit_copies();
    }
    commit_copies();
    wait_for_copies<1>();
    __syncwarp();
  }
  __device__ bool is_beside() const { return kExperts && !kNormed && a_.experts.beside; }
  // The expert that has a part, if experts lie beside one another.
  __device__ int expert_of(int part) const {
    return static_cast<int>(static_cast<unsigned>(part) * layout_.of_part >> 16);
  }
  // The chosen experts' weights, one for each lane.
  __device__ float expert_weight() const {
    return lane_ < a_.experts.used ? __ldcg(a_.chosen.weights + lane_) : 0;
  }
  // factors: beside one another, those of each item's expert.
  __device__ void convert(char* part, const Norms& weights, const float (&factors)[kTogether],
                          float& sum) const {
    float4 x[kTogether][2];
    unsigned bits[kTogether];
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        load_four(x[i][n],
                  reinterpret_cast<const In*>(part + i * kApart * kPart) + column_ + 16 * n);
        if constexpr (kNormed) {
          sum = add_squares(sum, x[i][n]);
          x[i][n] = times(x[i][n], weights.x[i][n]);
        }
      }
      if (is_beside()) {
        const float4 factor = {factors[i], factors[i], factors[i], factors[i]};
        for (float4& four : x[i]) four = times(four, factor);
      }
      // Non-negative floats have the same order as their bits.
      bits[i] = __reduce_max_sync(~0u, __float_as_uint(fmaxf(largest(x[i][0]), largest(x[i][1]))));
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < kTogether; ++i) digits_.store(part + i * kApart * kPart, x[i], bits[i]);
    __syncwarp();
  }

 public:
  __device__ StageOne(const LinearLaunch& a, const Layout& layout, const Activations& to)
      : a_(a), layout_(layout), to_(to) {}

  // Each lane calls staged(turn) as soon as its warp has stored its share of that turn.
  template <class Staged>
  __device__ void run(const Staged& staged) const {
    Norms now, next;
    if constexpr (kNormed) now = norms(0), next = norms(1);
    char* part = part_;
    float sum = 0, factors[kTogether] = {1, 1};
    float weight = is_beside() && a_.chosen.early ? expert_weight() : 0;
    int turn = -1;
#pragma unroll 1
    for (;;) {
      convert(part, now, factors, sum);
      if (++turn == to_.turns) break;
      if (is_beside()) {
        if (turn == 0 && !a_.chosen.early) {
          wait_for_kernel_ahead();
          weight = expert_weight();
        }
#pragma unroll
        for (int i = 0; i < kTogether; ++i) {
          factors[i] =
              __shfl_sync(~0u, weight, expert_of(first_ + turn * kStageParts + i * kApart));
        }
      }
      if (turn == 0) {
        wait_for_kernel_ahead();
        bring();
        sum = 0;
      } else {
        staged(turn - 1);
        wait_for_copies<0>();
        __syncwarp();
        part += kStageParts * kPart;
        if constexpr (kNormed) now = next, next = norms(turn + 1);
      }
    }
    if constexpr (kNormed) {
      sum = warp_sum(sum);
      if (lane_ == 0) to_.squares[warp_] = sum;
    }
    staged(turn - 1);
  }
};

}  // namespace skald::cuda
