// experts_many with Hopper's warpgroup products, for weights of 16 bits.
//
// A block has 256 weight rows of one expert and up to 128 of its places. Two warpgroups multiply
// 128 rows each. A third fetches weights and activations into a ring with slots of 64 columns. It
// copies by cp.async, because the places' rows are scattered and the products want swizzled rows.
#include "cuda/kernels/experts/experts_many_sm90.cuh"
#include "cuda/kernels/tiles/expand_q.h"
#include "cuda/kernels/tiles/tile_bytes.h"

namespace skald::cuda {
namespace {

constexpr int kRows = kManyGroups * 128;
constexpr int kWeightBytes = kRows * kManyRowBytes;
constexpr int kSlots = 4, kSlotBytes = kWeightBytes + kManyPlaces * kManyRowBytes;
constexpr int kSumsRow = kManySumsRow<kRows>;
static_assert(kManyPlaces * kSumsRow * 4 <= kSlots * kSlotBytes);

#if SKALD_HAS_WGMMA

// The 128 fetching threads call it; `thread` is one of them. Each copies the same 16 bytes of every
// 16th row. Beyond the matrix it stores zeros.
template <class T>
__device__ void fetch(const ExpertsLaunch& a, const ExpertTile& tile, int64_t first, int thread,
                      uint32_t ring, uint64_t* full, uint64_t* empty) {
  constexpr int kStep = 16, kEight = 8;
  const int row = thread / 8, eight = thread % 8;
  const uint32_t to = ring + row * kManyRowBytes + ((eight ^ row % 8) << 4);
  const T* weight =
      reinterpret_cast<const T*>(static_cast<const char*>(a.weight) + tile.expert * a.stride) +
      (first + row) * a.ins + eight * kEight;
  const int rows = static_cast<int>(min(int64_t{kRows}, a.outs - first));
  const T* in[kManyPlaces / kStep];
#pragma unroll
  for (int i = 0; i < kManyPlaces / kStep; ++i) {
    // Places beyond the tile's end repeat its last place.
    const int place = tile.first + min(row + i * kStep, tile.rows - 1);
    in[i] = static_cast<const T*>(a.in) + input_row(a, place) * a.ins + eight * kEight;
  }
  const int items = static_cast<int>((a.ins + kManyCols - 1) / kManyCols);
  fetch_many<kSlots>(items, full, empty, [&](int item, int slot) {
    const int64_t col = int64_t{item} * kManyCols;
    const bool inside = col + eight * kEight < a.ins;
    const uint32_t at = to + slot * kSlotBytes;
#pragma unroll
    for (int i = 0; i < kRows / kStep; ++i) {
      const bool valid = inside && row + i * kStep < rows;
      copy_async(at + i * kStep * kManyRowBytes,
                 valid ? weight + i * kStep * a.ins + col : static_cast<const T*>(a.weight), valid);
    }
#pragma unroll
    for (int i = 0; i < kManyPlaces / kStep; ++i) {
      copy_async(at + kWeightBytes + i * kStep * kManyRowBytes, inside ? in[i] + col : in[i],
                 inside);
    }
  });
}

#endif

template <class T>
__global__ void __launch_bounds__(kManyThreads, 1)
    experts_many_sm90(__grid_constant__ const ExpertsLaunch a) {
#if SKALD_HAS_WGMMA
  extern __shared__ char dynamic[];
  __shared__ __align__(8) uint64_t full[kSlots], empty[kSlots];
  char* const shared = many_shared(dynamic);
  const uint32_t ring = shared_address(shared);
  const int group = static_cast<int>(threadIdx.x) / 128, warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  init_many_slots<kSlots>(full, empty);
  __syncthreads();
  let_next_kernel_start();
  wait_for_kernel_ahead();
  const ExpertBlock block = find_block<kManyPlaces>(a.routing, blockIdx.x, row_blocks(a, kRows));
  const ExpertTile& tile = block.tile;
  if (tile.rows == 0) return;
  const int64_t first = int64_t{block.rows} * kRows;
  if (group == kManyGroups) {
    fetch<T>(a, tile, first, static_cast<int>(threadIdx.x) % 128, ring, full, empty);
    return;
  }

  float sums[2][kManyPlaces / 2];  // sums of 64 weight rows each
#pragma unroll
  for (int i = 0; i < kManyPlaces; ++i) sums[i / (kManyPlaces / 2)][i % (kManyPlaces / 2)] = 0;
  const int items = static_cast<int>((a.ins + kManyCols - 1) / kManyCols);
  const auto release = [&](int item) {
    if (lane == 0) barrier_arrive(&empty[item % kSlots]);
  };
  for (int item = 0; item < items; ++item) {
    const uint32_t at = ring + item % kSlots * kSlotBytes;
    barrier_wait(&full[item % kSlots], item / kSlots & 1);
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < kManyCols / 16; ++k) {
      const uint64_t places = matrix_descriptor(at + kWeightBytes + k * 32, 8 * kManyRowBytes, 0);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const uint32_t rows = at + (group * 128 + half * 64) * kManyRowBytes + k * 32;
        wgmma(T(), sums[half], matrix_descriptor(rows, 8 * kManyRowBytes, 0), places, true);
      }
    }
    wgmma_commit();
    if (item > 0) {
      wgmma_wait<1>();
      release(item - 1);
    }
  }
  wgmma_wait<0>();
  named_barrier<1, kManyMultiplying>();  // all warps have read the ring

  float* to = reinterpret_cast<float*>(shared);
  const int g = lane / 4, c = lane % 4;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = group * 128 + half * 64 + warp % 4 * 16 + g;
#pragma unroll
    for (int i = 0; i < kManyPlaces / 2; ++i) {
      to[(i / 4 * 8 + 2 * c + i % 2) * kSumsRow + row + i % 4 / 2 * 8] = sums[half][i];
    }
  }
  named_barrier<1, kManyMultiplying>();
  store_many<T, kRows>(a, tile, first, to);
#endif
}

}  // namespace

void launch_experts_many_sm90(const ExpertsLaunch& a, Stream stream) {
  if (block_elems(a.format) > 1) return launch_experts_many_q_sm90(a, stream);
  launch_many(a.type == DType::F16 ? experts_many_sm90<Half> : experts_many_sm90<Bf16>, kRows,
              many_shared_bytes(kSlots, kSlotBytes), a, stream);
}

template <>
void launch_experts<kernel_id("experts_many_sm90")>(const ExpertsLaunch& launch, Stream stream) {
  launch_experts_many_sm90(launch, stream);
}

template <>
void launch_experts<kernel_id("expand_q + experts_many_sm90")>(const ExpertsLaunch& a,
                                                               Stream stream) {
  const int64_t bytes = a.outs * a.ins * 2;
  ExpandLaunch expand = {a.format, a.weight, a.ins, 0, a.outs, a.type, a.expanded};
  // Experts that follow one another without a gap are one matrix.
  const bool whole = a.outs % tiles::kRows == 0 && a.stride == tile_bytes(a.format, a.outs, a.ins);
  if (whole) expand.rows *= a.routing.count;
  for (int expert = 0; expert < (whole ? 1 : a.routing.count); ++expert) {
    expand.tiles = static_cast<const char*>(a.weight) + expert * a.stride;
    expand.out = static_cast<char*>(a.expanded) + expert * bytes;
    launch_expand_q(expand, stream);
  }
  ExpertsLaunch plain = a;
  plain.format = a.type;
  plain.weight = a.expanded;
  plain.stride = bytes;
  launch_experts_many_sm90(plain, stream);
}

}  // namespace skald::cuda
