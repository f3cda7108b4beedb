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

// kEach: the experts of a lane; lane l has the experts from kEach * l on. An instruction that needs
// the result of the one before takes some five cycles, so the loop over the chosen experts has few
// of them.
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
    uint32_t keys[kEach];
#pragma unroll
    for (int i = 0; i < kEach; ++i) keys[i] = key_of(i, choice_bias);
    take_best(used, keys);
  }

  // The same among the experts of the best groups, up to 32 groups (ExpertsSpec).
  __device__ void choose_in_groups(const ExpertsSpec& spec, const float* choice_bias) {
    const unsigned groups = best_groups(spec, choice_bias);
    uint32_t keys[kEach];
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const bool open = expert(i) < count && groups >> expert(i) / (count / spec.groups) & 1;
      keys[i] = open ? key_of(i, choice_bias) : 0;
    }
    take_best(spec.used, keys);
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
  // What the choice compares. The lane's i-th expert exists.
  __device__ float value_of(int i, const float* choice_bias) const {
    return logits[i] + (choice_bias ? choice_bias[expert(i)] : 0);
  }

  // A number with the same order as the values. 1 stands for NaN, 0 for experts that are chosen or
  // do not exist.
  __device__ uint32_t key_of(int i, const float* choice_bias) const {
    const bool exists = expert(i) < count;
    const float value = exists ? value_of(i, choice_bias) : 0;
    const uint32_t bits = __float_as_uint(value + 0.0f);  // -0 becomes 0
    const uint32_t key = bits >> 31 ? ~bits : bits | 0x80000000u;
    return !exists ? 0 : isnan(value) ? 1 : key;
  }

  __device__ void take_best(int used, uint32_t (&keys)[kEach]) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
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

  // The groups that are used, a bit each: of equal groups, the earlier ones. A group is as good as
  // its two best experts together. Lane g keeps that sum of group g.
  __device__ unsigned best_groups(const ExpertsSpec& spec, const float* choice_bias) const {
    const int lane = static_cast<int>(threadIdx.x) % 32, size = count / spec.groups;
    float own = -INFINITY;
    for (int group = 0; group < spec.groups; ++group) {
      float first = -INFINITY, second = -INFINITY;
      const auto put = [&](float value) {
        if (value > first) {
          second = first;
          first = value;
        } else if (value > second) {
          second = value;
        }
      };
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        if (expert(i) < count && expert(i) / size == group) put(value_of(i, choice_bias));
      }
      for (int offset = 16; offset > 0; offset /= 2) {
        const float other = __shfl_xor_sync(~0u, first, offset);
        const float next = __shfl_xor_sync(~0u, second, offset);
        put(other);
        put(next);
      }
      if (lane == group) own = size > 1 ? first + second : first;
    }
    int better = 0;
    for (int group = 0; group < spec.groups; ++group) {
      const float other = __shfl_sync(~0u, own, group);
      better += other > own || (other == own && group < lane);
    }
    return __ballot_sync(~0u, lane < spec.groups && better < spec.used_groups);
  }

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
