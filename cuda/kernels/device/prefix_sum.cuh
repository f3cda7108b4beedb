// Sums over the lower lanes of a warp and the lower threads of a block: where a thread's part of a
// list begins.
#pragma once

namespace skald::cuda {

// The sum of the numbers of the lanes up to this one. The whole warp calls it.
__device__ inline int warp_prefix_sum(int x) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int offset = 1; offset < 32; offset *= 2) {
    const int other = __shfl_up_sync(~0u, x, offset);
    if (lane >= offset) x += other;
  }
  return x;
}

// The sum of the numbers of the threads below this one; adds the sum of all threads to `all`. Every
// thread of the block calls it, with the same `warps`, which the next call may use again.
template <int kWarps>
__device__ int block_sum_below(int x, int (&warps)[kWarps], int& all) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int sum = warp_prefix_sum(x);
  __syncthreads();  // all warps have read the numbers of the last call
  if (lane == 31) warps[warp] = sum;
  __syncthreads();
  int below = sum - x;
  for (int w = 0; w < kWarps; ++w) {
    if (w < warp) below += warps[w];
    all += warps[w];
  }
  return below;
}

}  // namespace skald::cuda
