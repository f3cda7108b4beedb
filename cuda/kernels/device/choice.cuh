// One row's choice of experts, made by one warp from the row's logits.
#pragma once

#include <climits>
#include <cmath>

#include "cuda/kernels/device/math.cuh"
#include "engine/program/specs.h"

namespace skald::cuda {

// What the choice reads: the logit, or with Gating::Sigmoid its sigmoid.
__device__ inline float gated_logit(float logit, Gating gating) {
  return gating == Gating::Sigmoid ? 1 / (1 + expf(-logit)) : logit;
}

constexpr float kLeastTotal = 1e-20f;  // of sigmoids, as in Hugging Face

// Lane l has the experts l, l + 32, and so on, up to 32 * kEach of them.
template <int kEach>
struct Choice {
  int count;
  float logits[kEach];  // gated_logit() of the lane's experts
  unsigned taken = 0;   // bit i: the lane's i-th expert is chosen

  // Chooses the `used` best experts. An expert whose logit is NaN comes last; of equal logits the
  // lower expert comes first. choice_bias: [count] or nullptr.
  __device__ void choose(int used, const float* choice_bias) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    // Numbers with the same order as the logits; 0 stands for NaN and for experts that are chosen.
    uint32_t keys[kEach];
    unsigned free = 0;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      keys[i] = 0;
      if (32 * i >= count) break;
      const int expert = 32 * i + lane;
      if (expert >= count) continue;
      free |= 1u << i;
      const float value = logits[i] + (choice_bias ? choice_bias[expert] : 0.0f);
      const uint32_t bits = __float_as_uint(value + 0.0f);  // -0 becomes 0
      if (!isnan(value)) keys[i] = bits >> 31 ? ~bits : bits | 0x80000000u;
    }
#pragma unroll 1
    for (int n = 0; n < used; ++n) {
      uint32_t best = 0;
      int expert = INT_MAX;
#pragma unroll
      for (int i = kEach - 1; i >= 0; --i) {
        if (32 * i < count && free >> i & 1 && keys[i] >= best) {
          best = keys[i];
          expert = 32 * i + lane;
        }
      }
      const uint32_t highest = warp_max(best);
      const auto first = static_cast<int>(
          warp_min(best == highest ? static_cast<unsigned>(expert) : unsigned{INT_MAX}));
      if (first % 32 == lane) {
        free &= ~(1u << first / 32);
        taken |= 1u << first / 32;
      }
    }
  }

  // Calls fn(slot, expert, i) in each lane that has a chosen expert: its number in the row's list,
  // in the order of the experts, and its place in the lane.
  template <class Fn>
  __device__ void for_each_chosen(const Fn& fn) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    int before = 0;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      if (32 * i >= count) break;
      const bool mine = taken >> i & 1;
      const unsigned all = __ballot_sync(~0u, mine);
      if (mine) fn(before + __popc(all & ((1u << lane) - 1)), 32 * i + lane, i);
      before += __popc(all);
    }
  }

  // Writes the chosen experts and their weights.
  __device__ void store(const ExpertsSpec& spec, int32_t* chosen, float* weights) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const bool sigmoid = spec.gating == Gating::Sigmoid;
    const auto of_lane = [&](bool all, const auto& fn) {
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        if (32 * i < count && 32 * i + lane < count && (all || taken >> i & 1)) fn(logits[i]);
      }
    };
    float highest = -INFINITY;
    of_lane(false, [&](float logit) { highest = fmaxf(highest, logit); });
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) {
      highest = fmaxf(highest, __shfl_xor_sync(~0u, highest, offset));
    }
    const auto share = [&](float logit) { return sigmoid ? logit : expf(logit - highest); };
    float total = 1;
    if (spec.normalized || !sigmoid) {
      float sum = 0;
      of_lane(!spec.normalized, [&](float logit) { sum += share(logit); });
      total = warp_sum(sum) + (sigmoid ? kLeastTotal : 0);
    }
    for_each_chosen([&](int slot, int expert, int i) {
      chosen[slot] = expert;
      weights[slot] = spec.scale * share(logits[i]) / total;
    });
  }

 private:
  __device__ static uint32_t warp_max(uint32_t x) {
#if __CUDA_ARCH__ >= 800
    return __reduce_max_sync(~0u, x);
#else
    for (int offset = 16; offset > 0; offset /= 2) x = max(x, __shfl_xor_sync(~0u, x, offset));
    return x;
#endif
  }
  __device__ static uint32_t warp_min(uint32_t x) { return ~warp_max(~x); }
};

}  // namespace skald::cuda
