// Shared by the two kernels of experts_many_sm90, for 16-bit weights (experts_many_sm90.cu) and for
// block formats (experts_many_q_sm90.cu): the items of a block, its threads, the rings' positions,
// and the epilogue.
//
// An item is 128 weight rows of one expert and a tile of its places. Two blocks are a cluster: they
// stay on their multiprocessors and take every n-th pair of items, which have the same places and
// neighbouring weight rows. Each block fetches half of the activations for both, which spares the
// L2 cache. Two warpgroups multiply 64 weight rows each. The warps of a third fetch into rings in
// shared memory, across the borders of items, so that the next item's data arrive during the
// epilogue of this one.
#pragma once

#include <type_traits>

#include "cuda/kernels/device/cluster.cuh"
#include "cuda/kernels/device/launch.cuh"
#include "cuda/kernels/device/wgmma_wide.cuh"
#include "cuda/kernels/experts/experts_weights.cuh"
#include "cuda/kernels/experts/placed_rows.h"

namespace skald::cuda {

inline constexpr int kManyGroups = 2;  // multiplying warpgroups; one more fetches
inline constexpr int kManyMultiplying = kManyGroups * 128, kManyThreads = kManyMultiplying + 128;
inline constexpr int kManyWarps = kManyMultiplying / 32;
inline constexpr int kManyRows = kManyGroups * 64;  // weight rows of an item
inline constexpr int kManyCluster = 2;              // blocks, which share activations
inline constexpr int kManySlotBytes = kMostTilePlaces * kPlacedRowBytes;  // of activations
static_assert(kManySlotBytes % 1024 == 0);
inline constexpr int kManySharedBytes = 227 * 1024;  // that a block of sm_90 may have
inline constexpr int kManyAlign = 1024;              // of slots, for the products' swizzle

#if SKALD_HAS_WGMMA

inline constexpr int kManyRegisters = 232, kFetchRegisters = 40;  // of a thread

__device__ inline char* many_shared(char* dynamic) {
  return dynamic + (kManyAlign - shared_address(dynamic) % kManyAlign) % kManyAlign;
}

// A position in a ring, and the parity of the barrier phase that fills the slot.
template <int kSlots>
struct RingAt {
  int slot = 0;
  unsigned parity = 0;
  __device__ void advance() {
    if (++slot == kSlots) slot = 0, parity ^= 1;
  }
};

struct ManyItem {
  PlacedTile tile;
  int row;   // first weight row; may lie beyond the matrix
  int base;  // the place of the window's first row, a multiple of kPlacedGroup

  // The number of places from `base` to the tile's last one.
  __device__ int window() const { return tile.first + tile.places - base; }
  // window(), rounded up to the places that are fetched, and to the places that are multiplied.
  __device__ int rows() const {
    return (window() + kPlacedGroup - 1) / kPlacedGroup * kPlacedGroup;
  }
  __device__ int padded_rows() const { return (window() + 31) / 32 * 32; }
};

// A block's items. The tile of the next item is read ahead.
class ManyItems {
 public:
  __device__ explicit ManyItems(const ExpertsLaunch& a)
      : a_(a),
        row_pairs_(static_cast<int>((a.outs + kPairRows - 1) / kPairRows)),
        count_(__ldcg(a.routing.tile_count) * row_pairs_),
        at_(static_cast<int>(blockIdx.x) / kManyCluster) {
    read();
  }
  __device__ bool done() const { return at_ >= count_; }
  __device__ ManyItem take() {
    const int rank = static_cast<int>(blockIdx.x) % kManyCluster;
    const ManyItem item = {next_, at_ % row_pairs_ * kPairRows + rank * kManyRows,
                           next_.first / kPlacedGroup * kPlacedGroup};
    at_ += static_cast<int>(gridDim.x) / kManyCluster;
    read();
    return item;
  }

 private:
  __device__ void read() {
    if (done()) return;
    const auto* from = reinterpret_cast<const int4*>(a_.routing.tiles) + at_ / row_pairs_;
    const int4 four = __ldcg(from);
    next_ = {four.x, four.y, four.z, four.w};
  }

  static constexpr int kPairRows = kManyCluster * kManyRows;
  const ExpertsLaunch& a_;
  int row_pairs_, count_, at_;  // in pairs of items
  PlacedTile next_ = {};
};

template <int kPlaces>
struct Places {};
// Calls fn with the smallest number of places that has an instance and holds the window.
template <class Fn>
__device__ inline void with_places(int window, const Fn& fn) {
  static_assert(kMostTilePlaces == 160);
  if (window <= 32) return fn(Places<32>());
  if (window <= 64) return fn(Places<64>());
  if (window <= 96) return fn(Places<96>());
  if (window <= 128) return fn(Places<128>());
  fn(Places<160>());
}

// Starts the copies of `count` blocks of 64 columns of a window's activations. This block copies
// half of the places, to both blocks of the cluster. One lane calls it.
__device__ inline void copy_window(const PlacedLayout& layout, const ExpertsLaunch& a,
                                   const ManyItem& item, int block, int count, char* slot,
                                   uint64_t* full) {
  constexpr unsigned kBoth = (1u << kManyCluster) - 1;
  const int rank = static_cast<int>(blockIdx.x) % kManyCluster, rows = item.rows();
  const int half = (rows / kPlacedGroup + 1) / 2 * kPlacedGroup;
  const int first = rank ? half : 0, own = rank ? rows - half : half;
  const uint64_t policy = evict_normal_policy();
  barrier_expect_bytes(full, count * rows * kPlacedRowBytes);
  // Block 0's copy is enough then: it starts when the warps of both blocks have left the slot.
  if (own == 0) return;
  const char* from = static_cast<const char*>(a.in) +
                     (block * layout.places + item.base + first) * kPlacedRowBytes;
  char* to = slot + first * kPlacedRowBytes;
  for (int i = 0; i < count; ++i) {
    bulk_copy_to(kBoth, to, from, own * kPlacedRowBytes, full, policy);
    from += layout.places * kPlacedRowBytes;
    to += item.padded_rows() * kPlacedRowBytes;
  }
}
// A multiplying warp has read a slot. Both blocks copy to the slot, so the warp arrives at the
// barriers of both.
inline constexpr int kManyReleases = kManyCluster * kManyWarps;
__device__ inline void release_window(uint64_t* empty) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (lane < kManyCluster) barrier_arrive_in(empty, lane);
}
// All threads of both blocks call it before the first copy, and at the end: no block may leave
// while the other one writes to it.
__device__ inline void meet_cluster() {
  cluster_arrive();
  cluster_wait();
}

// The sums of a warp's 16 weight rows: lane 4 g + c has rows g and g + 8, and of each 8 places of
// the window 2 c and 2 c + 1.
template <int kPlaces>
struct ManySums {
  float d[kPlaces / 2];

  // Waits for all products. The compiler must not move the epilogue's first instructions ahead of
  // the wait: then it has copies of the sums, too few registers, and lets no two products overlap.
  __device__ void finish() {
    wgmma_wait<0>();
#pragma unroll
    for (float& sum : d) asm volatile("" : "+f"(sum)::"memory");
  }
};

// The epilogue of a multiplying warp. 32 places at a time, the sums of its 16 weight rows go
// through shared memory, so that the code which stores them is short. Unrolled for all sums, this
// code did not fit the instruction cache and took a quarter of the kernel's time.
inline constexpr int kStagePlaces = 32, kStageRow = tiles::kRows + 4;  // floats; no bank twice
inline constexpr int kStageBytes = kManyWarps * kStagePlaces * kStageRow * 4;

// Results are multiplied by a factor of each place and of each of the lane's two weight rows.
struct NoFactors {
  __device__ float of_lane(int) const { return 1; }  // of place 32 set + lane
  __device__ float of_row(int) const { return 1; }
};

// Two results in the launch's type. from_float() keeps f16 from overflowing, pack() does not.
template <class T>
__device__ inline uint32_t pack_results(float low, float high) {
  if constexpr (std::is_same_v<T, Bf16>) return pack(T(), low, high);
  const Pack<T, 2> two = {{from_float<T>(low), from_float<T>(high)}};
  return *reinterpret_cast<const uint32_t*>(&two);
}

// Stores gated results: weight rows alternate gate and up. A lane has a place.
template <class T>
__device__ inline void store_gated(const ExpertsLaunch& a, const ManyItem& item, int first,
                                   const float* stage, float factor) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t row = item.row + warp * tiles::kRows;  // the warp's first
  const int place = first + lane;
  if (place < item.tile.first - item.base || place >= item.window() || row >= a.outs) return;
  const BriefGate gate(a.activation);
  const float* const bias = a.bias ? a.bias + item.tile.expert * a.outs + row : nullptr;
  const auto* const from = reinterpret_cast<const float4*>(stage + lane * kStageRow);
  uint32_t pairs[tiles::kRows / 4];
#pragma unroll
  for (int i = 0; i < tiles::kRows / 4; ++i) {
    float4 x = from[i];
    x.x *= factor, x.y *= factor, x.z *= factor, x.w *= factor;
    if (bias) {
      x.x += bias[i * 4], x.y += bias[i * 4 + 1], x.z += bias[i * 4 + 2], x.w += bias[i * 4 + 3];
    }
    pairs[i] = pack_results<T>(gate(x.x, x.y), gate(x.z, x.w));
  }
  char* const out = static_cast<char*>(a.out);
  const int64_t at = item.base + place, col = row / 2;
  const int64_t offset = a.out_order == RowOrder::Placed
                             ? PlacedLayout(a.routing.choices(), a.outs / 2).offset(at, col / 8)
                             : (at * a.out_stride + col) * 2;
  *reinterpret_cast<uint4*>(out + offset) = {pairs[0], pairs[1], pairs[2], pairs[3]};
}

// Stores a result of each weight row; four lanes have a place.
template <class T>
__device__ inline void store_rows(const ExpertsLaunch& a, const ManyItem& item, int first,
                                  const float* stage, float factor) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t row = item.row + warp * tiles::kRows + lane % 4 * 4;
#pragma unroll
  for (int i = 0; i < kStagePlaces / 8; ++i) {
    const int own = i * 8 + lane / 4, place = first + own;
    const float by = __shfl_sync(~0u, factor, own);
    if (place < item.tile.first - item.base || place >= item.window() || row >= a.outs) continue;
    float4 x = *reinterpret_cast<const float4*>(stage + own * kStageRow + lane % 4 * 4);
    x.x *= by, x.y *= by, x.z *= by, x.w *= by;
    if (a.bias) {
      const float* const bias = a.bias + item.tile.expert * a.outs + row;
      x.x += bias[0], x.y += bias[1], x.z += bias[2], x.w += bias[3];
    }
    const int64_t at = (item.base + place) * a.out_stride + row;
    if (a.epilogue == Epilogue::Floats) {
      *reinterpret_cast<float4*>(static_cast<float*>(a.out) + at) = x;
    } else {
      if (a.activates) {
        x = {activate_briefly(x.x, a.activation), activate_briefly(x.y, a.activation),
             activate_briefly(x.z, a.activation), activate_briefly(x.w, a.activation)};
      }
      *reinterpret_cast<uint2*>(static_cast<T*>(a.out) + at) = {pack_results<T>(x.x, x.y),
                                                                pack_results<T>(x.z, x.w)};
    }
  }
}

// Stores the results of the warp's 16 weight rows, as T or as floats.
template <class T, int kPlaces, class Factors>
__device__ inline void store_many(const ExpertsLaunch& a, const ManyItem& item, float* stages,
                                  const ManySums<kPlaces>& sums, const Factors& factors) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  float* const stage = stages + warp * kStagePlaces * kStageRow;
  float* const own = stage + lane % 4 * 2 * kStageRow + lane / 4;
#pragma unroll 1
  for (int set = 0; set < kPlaces / kStagePlaces; ++set) {
    float factor = 1;
#pragma unroll
    for (int constant = 0; constant < kPlaces / kStagePlaces; ++constant) {
      if (constant != set) continue;
      factor = factors.of_lane(constant);
#pragma unroll
      for (int i = 0; i < kStagePlaces / 2; ++i) {
        const int place = i / 4 * 8 + i % 2, half = i / 2 % 2;
        own[place * kStageRow + half * 8] =
            sums.d[constant * (kStagePlaces / 2) + i] * factors.of_row(half);
      }
    }
    __syncwarp();
    if (a.epilogue == Epilogue::Gated) {
      store_gated<T>(a, item, set * kStagePlaces, stage, factor);
    } else {
      store_rows<T>(a, item, set * kStagePlaces, stage, factor);
    }
    __syncwarp();
  }
}

#endif

template <class Kernel>
void launch_many(Kernel kernel, const ExpertsLaunch& a, Stream stream) {
  SKALD_CUDA(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kManySharedBytes));
  const unsigned blocks = std::max(a.multiprocessors / kManyCluster, 1) * kManyCluster;
  launch_kernel(kernel, {dim3(blocks), kManyThreads, kManySharedBytes, a.dependent, kManyCluster},
                stream, a);
}

}  // namespace skald::cuda
