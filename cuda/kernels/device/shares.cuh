// How the blocks of a matrix-vector product divide its weight rows, and where they are in their
// ring of tiles.
#pragma once

#include "cuda/kernels/linear.h"

namespace skald::cuda {

// A place in the ring, and how often it was passed.
struct Turn {
  int slot = 0;
  unsigned lap = 0;
  __device__ void next(int slots) {
    if (++slot == slots) {
      slot = 0;
      ++lap;
    }
  }
};

// Groups of weight rows that are every block's from the beginning; the others go to who comes
// first. Some multiprocessors get a tenth more of the memory's bandwidth than others; where a block
// has few groups, one is too much to hand over.
inline int groups_of_each(int groups, int blocks) {
  constexpr int kFewGroups = 8;
  const int each = groups / blocks;
  return each < kFewGroups ? each : each * 3 / 4;
}

// What consumers are told in place of a group when there is none.
inline constexpr int kNoMore = -1;

// The groups that a block multiplies, one after the other: its own, then what the ticket gives.
struct Groups {
  int taken = 0;
  unsigned ticket = 0;  // in lane 0, asked for one group ahead of its use

  // For whole warps. The layout knows how many `groups` there are, and `groups_each`.
  template <class Layout>
  __device__ int next(const LinearLaunch& a, const Layout& layout) {
    const int own = layout.groups_each, shared = own * static_cast<int>(gridDim.x);
    int group = static_cast<int>(blockIdx.x) * own + taken;
    if (own == 0 && taken == 0) draw(a);
    if (taken >= own) {
      const int drawn = static_cast<int>(__shfl_sync(~0u, ticket, 0));
      group = shared + drawn;
      if (group >= layout.groups) {
        // Each block draws one that is too high. The last of these leaves the ticket as it was.
        const int last = layout.groups - shared + static_cast<int>(gridDim.x) - 1;
        if (drawn == last && threadIdx.x % 32 == 0) *a.ticket = 0;
        return kNoMore;
      }
    }
    if (++taken >= own) draw(a);
    return group;
  }

 private:
  __device__ void draw(const LinearLaunch& a) {
    if (threadIdx.x % 32 == 0) ticket = atomicAdd(a.ticket, 1u);
  }
};

}  // namespace skald::cuda
