// The ring through which weights reach the warps of gemv_sm90. A producer warp fetches tiles of 8
// weight rows into shared memory by bulk copies. It does not wait for the kernel ahead, since
// weights do not depend on it.
//
// Bulk copies reach the memory's speed only if they fill whole 128-byte lines of shared memory. So
// all rows of a tile start at the same bank, and to read the same columns of 8 rows would take 8
// times as long. Therefore even and odd weight rows are half a step apart: in the first half of a
// step even rows multiply columns 0-31 and odd rows columns 32-63, in the second half the other way
// round.
#pragma once

#include "cuda/kernels/device/ptx.cuh"
#include "cuda/kernels/device/shares.cuh"
#include "cuda/kernels/gemv/gemv_layout.h"
#include "cuda/kernels/linear.h"

namespace skald::cuda {

// The barriers of the ring, in static shared memory.
struct Ring {
  alignas(8) uint64_t full[kMostRingSlots];
  uint64_t empty[kMostRingSlots];  // completed by one arrival of each warp that multiplies
  int group_at[kMostRingSlots];    // the slot's group of kTileRows weight rows, or kNoMore

  // All threads call it, and synchronize before they use the ring.
  __device__ void init(int slots, int warps) {
    init_barriers(slots, [&](int i) {
      barrier_init(&full[i], 1);
      barrier_init(&empty[i], warps);
    });
  }
};

// The producer warp's work. Always the same lane issues the copies: only then does the compiler see
// that a copy's operands are uniform. Otherwise each copy takes a loop over the lanes, which costs
// more than the copy.
template <class T, class Groups, class Layout>
__device__ void fetch_weights(const LinearLaunch& a, const Layout& layout, Groups groups,
                              char* tiles, Ring& ring) {
  const uint64_t policy = evict_first_policy();
  const T* weight = static_cast<const T*>(a.weight);
  Turn turn;
  for (;;) {
    const int group = groups.next(a, layout);
    if (group == kNoMore) break;
    const int64_t row = int64_t{group} * kTileRows;
    const int rows = static_cast<int>(min(int64_t{kTileRows}, a.outs - row));
    for (int64_t col = 0; col < a.ins; col += kTileCols, turn.next(layout.slots)) {
      const uint32_t bytes = static_cast<uint32_t>(min(int64_t{kTileCols}, a.ins - col)) * 2;
      const T* from = weight + row * a.ins + col;
      char* to = tiles + turn.slot * kSlotBytes;
      uint64_t* full = &ring.full[turn.slot];
      if (turn.lap > 0) barrier_wait(&ring.empty[turn.slot], (turn.lap - 1) & 1);
      if (elect_lane()) {
        ring.group_at[turn.slot] = group;
        barrier_expect_bytes(full, bytes * rows);
        if (rows == kTileRows) {
#pragma unroll
          for (int r = 0; r < kTileRows; ++r) {
            bulk_copy(to + r * kRowBytes, from + r * a.ins, bytes, full, policy);
          }
        } else {
          for (int r = 0; r < rows; ++r) {
            bulk_copy(to + r * kRowBytes, from + r * a.ins, bytes, full, policy);
          }
        }
      }
      __syncwarp();
    }
  }
  if (turn.lap > 0) barrier_wait(&ring.empty[turn.slot], (turn.lap - 1) & 1);
  if (elect_lane()) {
    ring.group_at[turn.slot] = kNoMore;
    barrier_arrive(&ring.full[turn.slot]);
  }
}

}  // namespace skald::cuda
