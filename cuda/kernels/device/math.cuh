// Sums over a warp and over a block, and the activation functions of gated products.
#pragma once

#include "engine/program/specs.h"

namespace skald::cuda {

// Every lane gets the sum. The order of the additions is fixed.
__device__ inline float warp_sum(float x) {
  for (int offset = 16; offset > 0; offset /= 2) x += __shfl_xor_sync(~0u, x, offset);
  return x;
}

// Every thread of kThreads gets the sum. `shared` has kThreads / 32 floats, which may be used again
// after the next barrier.
template <int kThreads>
__device__ float block_sum(float x, float* shared) {
  x = warp_sum(x);
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = x;
  __syncthreads();
  float sum = 0;
  for (int warp = 0; warp < kThreads / 32; ++warp) sum += shared[warp];
  return sum;
}

__device__ inline float silu(float x) { return x / (1 + expf(-x)); }

__device__ inline float squared_relu(float x) { return x < 0 ? 0 : x * x; }  // NaN stays

// For Silu, GeluTanh and SquaredRelu.
__device__ inline float activate(float x, Activation activation) {
  if (activation == Activation::Silu) return silu(x);
  if (activation == Activation::SquaredRelu) return squared_relu(x);
  constexpr float kSqrt2OverPi = 0.7978845608028654f;
  return 0.5f * x * (1 + tanhf(kSqrt2OverPi * (x + 0.044715f * x * x * x)));
}

// What a gate and an up become, with any activation.
__device__ inline float gated(float gate, float up, Activation activation) {
  if (activation != Activation::ClampedSwiglu) return activate(gate, activation) * up;
  gate = gate > kSwigluLimit ? kSwigluLimit : gate;  // NaN stays
  up = up > kSwigluLimit ? kSwigluLimit : up < -kSwigluLimit ? -kSwigluLimit : up;
  return gate / (1 + expf(-kSwigluSlope * gate)) * (up + 1);
}

// activate() to the precision of 16 bits, in a third of the instructions.
__device__ inline float activate_briefly(float x, Activation activation) {
  if (activation == Activation::SquaredRelu) return squared_relu(x);
  const float y = activation == Activation::Silu ? x : x * (1.5957691f + 0.07135482f * x * x);
  return __fdividef(x, 1 + __expf(-y));
}

// gated() of finite numbers to the precision of 16 bits, without a branch: code that is repeated
// for many results stays short.
class BriefGate {
 public:
  __device__ explicit BriefGate(Activation activation) {
    if (activation == Activation::GeluTanh) linear_ = 1.5957691f, cubic_ = 0.07135482f;
    if (activation == Activation::ClampedSwiglu) {
      linear_ = kSwigluSlope, limit_ = kSwigluLimit, more_ = 1;
    }
  }
  __device__ float operator()(float gate, float up) const {
    gate = gate > limit_ ? limit_ : gate;  // NaN stays
    up = up > limit_ ? limit_ : up < -limit_ ? -limit_ : up;
    const float y = gate * fmaf(cubic_ * gate, gate, linear_);
    return __fdividef(gate, 1 + __expf(-y)) * (up + more_);
  }

 private:
  float linear_ = 1, cubic_ = 0, limit_ = __builtin_huge_valf(), more_ = 0;
};

}  // namespace skald::cuda
