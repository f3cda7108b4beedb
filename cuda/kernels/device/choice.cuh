// One row's choice of experts, made by one warp from the row's logits.
#pragma once

#include <cmath>

#include "cuda/kernels/device/math.cuh"
#include "engine/program/specs.h"

namespace skald::cuda {

// What the choice reads: the logit, or with Gating::Sigmoid its sigmoid.
__device__ inline float gated_logit(float logit, Gating gating) {
  return gating == Gating::Sigmoid ? 1 / (1 + expf(-logit)) : logit;
}

constexpr float kLeastTotal = 1e-20f;  // of sigmoids, as in Hugging Face

// kEach: experts of a lane; lane l has those from kEach * l on. Instructions of one warp that need
// one another's results take some five cycles each, so few of them stand in the loop over the
// chosen experts.
template <int kEach>
struct Choice {
  int count;
  float logits[kEach];  // gated_logit() of the lane's experts
  unsigned taken = 0;   // bit i: the lane's i-th expert is chosen

  __device__ explicit Choice(int all) : count(all) {}
  __device__ static int expert(int i) { return kEach * (static_cast<int>(threadIdx.x) % 32) + i; }

  // Chooses the `used` best experts. An expert whose logit is NaN comes last; of equal logits the
  // lower expert comes first. choice_bias: [count] or nullptr.
  __device__ void choose(int used, const float* choice_bias) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    // Numbers with the same order as the logits. 1 stands for NaN, 0 for experts that are chosen or
    // do not exist.
    uint32_t keys[kEach];
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const bool exists = expert(i) < count;
      float value = logits[i];
      if (choice_bias && exists) value += choice_bias[expert(i)];
      const uint32_t bits = __float_as_uint(value + 0.0f);  // -0 becomes 0
      const uint32_t key = bits >> 31 ? ~bits : bits | 0x80000000u;
      keys[i] = !exists ? 0 : isnan(value) ? 1 : key;
    }
#pragma unroll 1
    for (int n = 0; n < used; ++n) {
      uint32_t best = keys[0];
#pragma unroll
      for (int i = 1; i < kEach; ++i) best = max(best, keys[i]);
      const uint32_t highest = warp_max(best);
      const int owner = __ffs(static_cast<int>(__ballot_sync(~0u, best == highest))) - 1;
      bool open = lane == owner;
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        const bool mine = open && keys[i] == highest;
        if (mine) keys[i] = 0, taken |= 1u << i;
        open = open && !mine;
      }
    }
  }

  // Calls fn(slot, expert, i) in each lane that has a chosen expert: its number in the row's list,
  // in the order of the experts, and its place in the lane.
  template <class Fn>
  __device__ void for_each_chosen(const Fn& fn) const {
    const unsigned below = (1u << threadIdx.x % 32) - 1;
    int slot = 0;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      slot += __popc(__ballot_sync(~0u, taken >> i & 1) & below);
    }
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      if (taken >> i & 1) fn(slot++, expert(i), i);
    }
  }

  // Writes the chosen experts and their weights.
  __device__ void store(const ExpertsSpec& spec, int32_t* chosen, float* weights) const {
    const bool sigmoid = spec.gating == Gating::Sigmoid;
    const auto of_lane = [&](bool all, const auto& fn) {
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        if (expert(i) < count && (all || taken >> i & 1)) fn(logits[i]);
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
};

}  // namespace skald::cuda
