// experts_many with Hopper's warpgroup products, for weights of 16 bits.
//
// A block has 256 weight rows of one expert and up to 128 of its places. Two warpgroups multiply
// 128 rows each. A third fetches weights and activations into a ring with slots of 64 columns. It
// copies by cp.async, because the places' rows are scattered and the products want swizzled rows.
#include "cuda/kernels/built_for.h"
#include "cuda/kernels/device/launch.cuh"
#include "cuda/kernels/device/wgmma.cuh"
#include "cuda/kernels/experts/experts_tile.cuh"
#include "cuda/kernels/experts/experts_weights.cuh"

namespace skald::cuda {
namespace {

constexpr int kGroups = 2;  // of 128 threads that multiply, beside the one that fetches
constexpr int kMultiplying = kGroups * 128, kThreads = kMultiplying + 128;
constexpr int kPlaces = 128, kRows = kGroups * 128;
constexpr int kCols = 64, kRowBytes = kCols * 2;
constexpr int kWeightBytes = kRows * kRowBytes, kSlotBytes = kWeightBytes + kPlaces * kRowBytes;
constexpr int kSlots = 4;
constexpr int kSumsRow = kRows + 4;  // floats: padded so that no two lanes use one bank
constexpr int kSharedBytes = kSlots * kSlotBytes + 1024;
static_assert(kPlaces * kSumsRow * 4 <= kSlots * kSlotBytes);

#if SKALD_HAS_WGMMA

constexpr int kLag = 2;  // slots that may be under way before the oldest is waited for

// For the 128 threads that fetch; `thread` is one of them. Each copies the same 16 bytes of every
// 16th row. Beyond the matrix it stores zeros.
template <class T>
__device__ void fetch(const ExpertsLaunch& a, const ExpertTile& tile, int64_t first, int thread,
                      uint32_t ring, uint64_t* full, uint64_t* empty) {
  constexpr int kStep = 16, kEight = 8;
  const int row = thread / 8, eight = thread % 8;
  const uint32_t to = ring + row * kRowBytes + ((eight ^ row % 8) << 4);
  const T* weight =
      reinterpret_cast<const T*>(static_cast<const char*>(a.weight) + tile.expert * a.stride) +
      (first + row) * a.ins + eight * kEight;
  const int rows = static_cast<int>(min(int64_t{kRows}, a.outs - first));
  const T* in[kPlaces / kStep];
#pragma unroll
  for (int i = 0; i < kPlaces / kStep; ++i) {
    // Places beyond the tile repeat its last one.
    const int place = tile.first + min(row + i * kStep, tile.rows - 1);
    in[i] = static_cast<const T*>(a.in) + input_row(a, place) * a.ins + eight * kEight;
  }
  const int slots = static_cast<int>((a.ins + kCols - 1) / kCols);
  for (int item = 0; item < slots + kLag; ++item) {
    if (item < slots) {
      const int slot = item % kSlots;
      if (item >= kSlots) barrier_wait(&empty[slot], (item / kSlots - 1) & 1);
      const int64_t col = int64_t{item} * kCols;
      const bool inside = col + eight * kEight < a.ins;
      const uint32_t at = to + slot * kSlotBytes;
#pragma unroll
      for (int i = 0; i < kRows / kStep; ++i) {
        const bool valid = inside && row + i * kStep < rows;
        copy_async(at + i * kStep * kRowBytes,
                   valid ? weight + i * kStep * a.ins + col : static_cast<const T*>(a.weight),
                   valid);
      }
#pragma unroll
      for (int i = 0; i < kPlaces / kStep; ++i) {
        copy_async(at + kWeightBytes + i * kStep * kRowBytes, inside ? in[i] + col : in[i], inside);
      }
    }
    commit_copies();
    if (item >= kLag) {
      wait_for_copies<kLag>();
      fence_for_products();
      barrier_arrive(&full[(item - kLag) % kSlots]);
    }
  }
}

#endif

template <class T>
__global__ void __launch_bounds__(kThreads, 1)
    experts_many_sm90(__grid_constant__ const ExpertsLaunch a) {
#if SKALD_HAS_WGMMA
  extern __shared__ char dynamic[];
  __shared__ __align__(8) uint64_t full[kSlots], empty[kSlots];
  char* const shared = dynamic + (1024 - shared_address(dynamic) % 1024) % 1024;
  const uint32_t ring = shared_address(shared);
  const int group = static_cast<int>(threadIdx.x) / 128, warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (threadIdx.x == 0) {
    for (int i = 0; i < kSlots; ++i) {
      barrier_init(&full[i], 128);
      barrier_init(&empty[i], kMultiplying / 32);
    }
  }
  __syncthreads();
  let_next_kernel_start();
  wait_for_kernel_ahead();
  const ExpertBlock block = find_block<kPlaces>(a.routing, blockIdx.x, row_blocks(a, kRows));
  const ExpertTile& tile = block.tile;
  if (tile.rows == 0) return;
  const int64_t first = int64_t{block.rows} * kRows;
  if (group == kGroups) {
    fetch<T>(a, tile, first, static_cast<int>(threadIdx.x) % 128, ring, full, empty);
    return;
  }

  float sums[2][kPlaces / 2];  // of 64 weight rows each
#pragma unroll
  for (int i = 0; i < kPlaces; ++i) sums[i / (kPlaces / 2)][i % (kPlaces / 2)] = 0;
  const int slots = static_cast<int>((a.ins + kCols - 1) / kCols);
  const auto release = [&](int item) {
    if (lane == 0) barrier_arrive(&empty[item % kSlots]);
  };
  for (int item = 0; item < slots; ++item) {
    const uint32_t at = ring + item % kSlots * kSlotBytes;
    barrier_wait(&full[item % kSlots], item / kSlots & 1);
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < kCols / 16; ++k) {
      const uint64_t places = matrix_descriptor(at + kWeightBytes + k * 32, 8 * kRowBytes, 0);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const uint32_t rows = at + (group * 128 + half * 64) * kRowBytes + k * 32;
        wgmma(T(), sums[half], matrix_descriptor(rows, 8 * kRowBytes, 0), places, true);
      }
    }
    wgmma_commit();
    if (item > 0) {
      wgmma_wait<1>();
      release(item - 1);
    }
  }
  wgmma_wait<0>();
  named_barrier<1, kMultiplying>();  // all warps have read the ring

  float* to = reinterpret_cast<float*>(shared);
  const int g = lane / 4, c = lane % 4;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = group * 128 + half * 64 + warp % 4 * 16 + g;
#pragma unroll
    for (int i = 0; i < kPlaces / 2; ++i) {
      to[(i / 4 * 8 + 2 * c + i % 2) * kSumsRow + row + i % 4 / 2 * 8] = sums[half][i];
    }
  }
  named_barrier<1, kMultiplying>();
  const int step = a.epilogue == Epilogue::Gated ? 2 : 1, each = kRows / step;
  const int row = static_cast<int>(threadIdx.x) % each * step;
  if (first + row >= a.outs) return;
  for (int place = static_cast<int>(threadIdx.x) / each; place < tile.rows;
       place += kMultiplying / each) {
    const float* sum = to + place * kSumsRow + row;
    store_result<T>(a, tile.first + place, first + row, sum[0], sum[step - 1]);
  }
#endif
}

template <class T>
void launch(const ExpertsLaunch& a, Stream stream) {
  const auto kernel = experts_many_sm90<T>;
  SKALD_CUDA(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes));
  launch_kernel(kernel,
                {dim3(expert_blocks(a, kPlaces, kRows)), kThreads, kSharedBytes, a.dependent},
                stream, a);
}

}  // namespace

bool supports_experts_many_sm90(const ExpertsLaunch& a, int compute_capability) {
  return kHasSm90a && compute_capability == 90 && suits_parts(a, compute_capability);
}

void launch_experts_many_sm90(const ExpertsLaunch& a, Stream stream) {
  if (info(a.format).block_elems > 1) return launch_experts_many_q_sm90(a, stream);
  a.type == DType::F16 ? launch<Half>(a, stream) : launch<Bf16>(a, stream);
}

}  // namespace skald::cuda
