// Shared by the two kernels of experts_many_sm90, for 16-bit weights (experts_many_sm90.cu) and for
// block formats (experts_many_q_sm90.cu): the threads of a block, the ring that one warpgroup fills
// while two multiply, and the epilogue.
#pragma once

#include "cuda/kernels/device/launch.cuh"
#include "cuda/kernels/device/wgmma.cuh"
#include "cuda/kernels/experts/experts_tile.cuh"
#include "cuda/kernels/experts/experts_weights.cuh"

namespace skald::cuda {

inline constexpr int kManyGroups = 2;  // multiplying warpgroups; one more fetches
inline constexpr int kManyMultiplying = kManyGroups * 128, kManyThreads = kManyMultiplying + 128;
inline constexpr int kManyPlaces = 128;  // places of a block
inline constexpr int kManyCols = 64;     // columns of a slot
inline constexpr int kManyRowBytes = kManyCols * 2;
// Floats from one place's sums to the next place's: padded so that no two lanes use one bank.
template <int kRows>
inline constexpr int kManySumsRow = kRows + 4;
// The ring's slots begin at a multiple of 1024 bytes of dynamic shared memory.
constexpr int many_shared_bytes(int slots, int slot_bytes) { return slots * slot_bytes + 1024; }

#if SKALD_HAS_WGMMA

inline constexpr int kManyLag = 2;  // slots in flight before the oldest must have arrived

__device__ inline char* many_shared(char* dynamic) {
  return dynamic + (1024 - shared_address(dynamic) % 1024) % 1024;
}

// All threads of the block call it, and synchronize before they use the barriers.
template <int kSlots>
__device__ inline void init_many_slots(uint64_t* full, uint64_t* empty) {
  if (threadIdx.x == 0) {
    for (int i = 0; i < kSlots; ++i) {
      barrier_init(&full[i], 128);
      barrier_init(&empty[i], kManyMultiplying / 32);
    }
  }
}

// The loop of the fetching warpgroup. copy(item, slot) starts a thread's copies of an item,
// kManyCols columns of both operands, into a slot of the ring.
template <int kSlots, class Copy>
__device__ inline void fetch_many(int items, uint64_t* full, uint64_t* empty, const Copy& copy) {
  for (int item = 0; item < items + kManyLag; ++item) {
    if (item < items) {
      const int slot = item % kSlots;
      if (item >= kSlots) barrier_wait(&empty[slot], (item / kSlots - 1) & 1);
      copy(item, slot);
    }
    commit_copies();
    if (item >= kManyLag) {
      wait_for_copies<kManyLag>();
      fence_for_products();
      barrier_arrive(&full[(item - kManyLag) % kSlots]);
    }
  }
}

// The epilogue of the multiplying warpgroups: stores the results of kRows weight rows from `first`
// on, whose sums lie in shared memory, [places, kManySumsRow<kRows>].
template <class T, int kRows>
__device__ inline void store_many(const ExpertsLaunch& a, const ExpertTile& tile, int64_t first,
                                  const float* sums) {
  const int step = a.epilogue == Epilogue::Gated ? 2 : 1, each = kRows / step;
  const int row = static_cast<int>(threadIdx.x) % each * step;
  if (first + row >= a.outs) return;
  for (int place = static_cast<int>(threadIdx.x) / each; place < tile.rows;
       place += kManyMultiplying / each) {
    const float* sum = sums + place * kManySumsRow<kRows> + row;
    store_result<T>(a, {tile.expert, tile.first + place, first + row}, sum[0], sum[step - 1]);
  }
}

#endif

template <class Kernel>
void launch_many(Kernel kernel, int rows, int shared_bytes, const ExpertsLaunch& a, Stream stream) {
  SKALD_CUDA(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes));
  launch_kernel(kernel,
                {dim3(expert_blocks(a, kManyPlaces, rows)), kManyThreads,
                 static_cast<size_t>(shared_bytes), a.dependent},
                stream, a);
}

}  // namespace skald::cuda
