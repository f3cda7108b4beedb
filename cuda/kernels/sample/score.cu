// The sums behind the scores of a row's tokens. Floor: each row read once, 0.5 MB for 128256
// floats. A row is read twice, mostly from memory both times: for the largest logit, then for the
// sums. That takes at most a tenth of the time of the product that computes the row. One block per
// row, so that the order of a row's sums is always the same.
#include "cuda/kernels/sample/score.h"

#include <cfloat>

#include "cuda/kernels/device/launch.cuh"
#include "engine/base/exp.h"

namespace skald::cuda {
namespace {

constexpr int kThreads = 512;
constexpr int kWarps = kThreads / 32;

// The same as in engine/sampling/score.cpp: a masked token's difference is bounded, so that its
// product with a weight of 0 is 0.
constexpr float kNoWeight = -200;

struct Best {
  float logit;
  int id;
};

__device__ Best shuffle(Best x, int offset) {
  return {__shfl_xor_sync(~0u, x.logit, offset), __shfl_xor_sync(~0u, x.id, offset)};
}
template <class T>
__device__ T shuffle(T x, int offset) {
  return __shfl_xor_sync(~0u, x, offset);
}

// Joins all threads' values, always in the same order. Every thread gets the result.
template <class T, class Join>
__device__ T join_block(T mine, const Join& join) {
  __shared__ T of_warps[kWarps];
  for (int offset = 16; offset > 0; offset /= 2) mine = join(mine, shuffle(mine, offset));
  __syncthreads();  // all threads have read of_warps of the last use
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = mine;
  __syncthreads();
  T all = of_warps[0];
  for (int warp = 1; warp < kWarps; ++warp) all = join(all, of_warps[warp]);
  return all;
}

template <class T>
__device__ T sum_block(T mine) {
  return join_block(mine, [](T a, T b) { return a + b; });
}

// Calls fn(logit, id) for the thread's tokens in ascending order, four at a time if rows are
// aligned for that.
template <class Fn>
__device__ void each(const float* row, int vocab, const Fn& fn) {
  if (vocab % 4 != 0) {
    for (int id = threadIdx.x; id < vocab; id += kThreads) fn(row[id], id);
    return;
  }
#pragma unroll 4
  for (int id = 4 * static_cast<int>(threadIdx.x); id < vocab; id += 4 * kThreads) {
    const float4 four = *reinterpret_cast<const float4*>(row + id);
    fn(four.x, id);
    fn(four.y, id + 1);
    fn(four.z, id + 2);
    fn(four.w, id + 3);
  }
}

__device__ int64_t row_of(const int32_t* rows, int i) { return rows ? rows[i] : i; }

__global__ void __launch_bounds__(kThreads) score(const ScoreLaunch a) {
  const int i = blockIdx.x, vocab = static_cast<int>(a.vocab);
  const float* row = a.logits + row_of(a.rows, i) * a.vocab;
  const int target = a.targets[i];
  const float wanted = row[target];

  Best best = {-INFINITY, vocab};
  int before = 0;
  bool bad = false;
  each(row, vocab, [&](float logit, int id) {
    bad |= !(logit <= FLT_MAX);
    if (logit > best.logit) best = {logit, id};
    before += logit > wanted || (logit == wanted && id < target);
  });
  bad = __syncthreads_or(bad);
  best = join_block(best, [](Best x, Best y) {
    return y.logit > x.logit || (y.logit == x.logit && y.id < x.id) ? y : x;
  });
  if (bad || best.logit < -FLT_MAX) {
    if (threadIdx.x == 0) a.sums[i] = {0, 0, 0, 0, -1, 0};
    return;
  }
  before = sum_block(before);
  double weights = 0, weighted = 0;
  each(row, vocab, [&](float logit, int) {
    const float below = fmaxf(logit - best.logit, kNoWeight);
    const double weight = exp_nonpositive(below);
    weights += weight;
    weighted += weight * below;
  });
  weights = sum_block(weights);
  weighted = sum_block(weighted);
  if (threadIdx.x == 0) a.sums[i] = {weights, weighted, best.logit, wanted, best.id, before};
}

__global__ void __launch_bounds__(kThreads) diverge(const DivergenceLaunch a) {
  const int i = blockIdx.x, vocab = static_cast<int>(a.vocab);
  if (a.sums[i].top < 0 || a.base_sums[i].top < 0) {
    if (threadIdx.x == 0) a.divergences[i] = {0, 0, 0};
    return;
  }
  const float* row = a.logits + row_of(a.rows, i) * a.vocab;
  const float* base = a.base + row_of(a.rows, i) * a.vocab;
  const double best = a.sums[i].best, base_best = a.base_sums[i].best;
  double weights = 0, base_weights = 0, shift = 0;
  const auto add = [&](double logit, double of_base) {
    weights += exp(logit - best);
    const double weight = exp(of_base - base_best);
    base_weights += weight;
    if (weight > 0) shift += weight * (of_base - logit);
  };
  if (vocab % 4 != 0) {
    for (int id = threadIdx.x; id < vocab; id += kThreads) add(row[id], base[id]);
  } else {
#pragma unroll 2
    for (int id = 4 * static_cast<int>(threadIdx.x); id < vocab; id += 4 * kThreads) {
      const float4 x = *reinterpret_cast<const float4*>(row + id);
      const float4 y = *reinterpret_cast<const float4*>(base + id);
      add(x.x, y.x);
      add(x.y, y.y);
      add(x.z, y.z);
      add(x.w, y.w);
    }
  }
  weights = sum_block(weights);
  base_weights = sum_block(base_weights);
  shift = sum_block(shift);
  if (threadIdx.x == 0) a.divergences[i] = {weights, base_weights, shift};
}

}  // namespace

void launch_score(const ScoreLaunch& a, Stream stream) {
  if (a.count == 0) return;
  launch_kernel(score, {dim3(a.count), kThreads}, stream, a);
}

void launch_divergence(const DivergenceLaunch& a, Stream stream) {
  if (a.count == 0) return;
  launch_kernel(diverge, {dim3(a.count), kThreads}, stream, a);
}

}  // namespace skald::cuda
