// The kernels around the products: sort_choices, before them, and combine, after them. Sorting
// reads all choices once or twice for each expert, at most some megabytes from the L2 cache.
// combine reads `used` rows of floats for each row.
#include "cuda/kernels/device/launch.cuh"
#include "cuda/kernels/device/math.cuh"
#include "cuda/kernels/device/prefix_sum.cuh"
#include "cuda/kernels/experts/experts.h"
#include "cuda/kernels/experts/experts_sum.cuh"
#include "cuda/kernels/experts/float_access.cuh"
#include "engine/base/check.h"

namespace skald::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kSortThreads = 512, kSortEach = 8;

// Block e finds the places of expert e: behind those of all lower experts, in the order of rows.
__global__ void __launch_bounds__(kSortThreads) sort_choices(Routing r) {
  constexpr int kSortWarps = kSortThreads / 32;
  __shared__ float scratch[kSortWarps];
  __shared__ int counts[kSortWarps];
  const int expert = static_cast<int>(blockIdx.x), choices = r.rows * r.used;
  let_next_kernel_start();
  wait_for_kernel_ahead();
  int lower = 0;
  for (int i = threadIdx.x; i < choices; i += kSortThreads) {
    lower += __ldcg(r.chosen + i) < expert ? 1 : 0;
  }
  // Integers below 2^24, so no float sum rounds.
  int place = static_cast<int>(block_sum<kSortThreads>(static_cast<float>(lower), scratch));
  if (threadIdx.x == 0) {
    r.begins[expert] = place;
    if (expert == 0) r.begins[r.count] = choices;
  }
  for (int base = 0; base < choices; base += kSortThreads * kSortEach) {
    const int first = base + static_cast<int>(threadIdx.x) * kSortEach;
    unsigned mine = 0;
#pragma unroll
    for (int i = 0; i < kSortEach; ++i) {
      if (first + i < choices && __ldcg(r.chosen + first + i) == expert) mine |= 1u << i;
    }
    int all = 0, at = place + block_sum_below(__popc(mine), counts, all);
#pragma unroll
    for (int i = 0; i < kSortEach; ++i) {
      if (!(mine >> i & 1)) continue;
      r.places[first + i] = at;
      r.row_of[at++] = (first + i) / r.used;
    }
    place += all;
  }
}

template <int kVec>
__global__ void __launch_bounds__(kThreads) combine(CombineLaunch a) {
  const int64_t row = blockIdx.x, accesses = a.dim / kVec;
  const int64_t at = int64_t{blockIdx.y} * kThreads + threadIdx.x;
  const Routing& r = a.routing;
  let_next_kernel_start();
  wait_for_kernel_ahead();
  if (at >= accesses) return;
  Pack<float, kVec> sum = {};
#pragma unroll 4
  for (int i = 0; i < r.used; ++i) {
    const int64_t choice = row * r.used + i;
    const int64_t place = r.rows == 1 ? i : __ldcg(r.places + choice);
    float weight = __ldcg(r.weights + choice);
    if (a.expert_scale) weight *= a.expert_scale[__ldcg(r.chosen + choice)];
    const Pack<float, kVec> y = load<kVec>(a.y + place * a.dim, at);
#pragma unroll
    for (int j = 0; j < kVec; ++j) sum.x[j] = add_expert(weight, y.x[j], sum.x[j]);
  }
  Pack<float, kVec> x = {};
  if (a.adds) x = load<kVec>(a.x + row * a.dim, at);
#pragma unroll
  for (int j = 0; j < kVec; ++j) x.x[j] = fmaf(a.scale, sum.x[j], x.x[j]);
  reinterpret_cast<Pack<float, kVec>*>(a.x + row * a.dim)[at] = x;
}

}  // namespace

void launch_sort_choices(const Routing& routing, bool dependent, Stream stream) {
  if (routing.rows == 1) return;
  check(routing.choices() < 1 << 24, "a step has fewer than 2^24 choices");
  launch_kernel(sort_choices, {dim3(routing.count), kSortThreads, 0, dependent}, stream, routing);
}

void launch_combine(const CombineLaunch& a, Stream stream) {
  const bool by_four = a.dim % 4 == 0;
  const dim3 blocks(a.routing.rows,
                    static_cast<unsigned>((a.dim / (by_four ? 4 : 1) + kThreads - 1) / kThreads));
  launch_kernel(by_four ? combine<4> : combine<1>, {blocks, kThreads, 0, a.dependent}, stream, a);
}

}  // namespace skald::cuda
