// How the blocks of a matrix-vector product share its weight rows, and a place in the ring of
// tiles. Used by gemv and gemv_q.
#pragma once

#include "cuda/kernels/linear.h"

namespace skald::cuda {

// A slot of the ring, and the number of laps around the ring.
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

// Stands for a group's number if there are no more groups.
inline constexpr int kNoMore = -1;

// The groups that a block multiplies, one after the other: its own, then those that it draws from
// the ticket.
struct Groups {
  int taken = 0;
  unsigned ticket = 0;  // in lane 0, drawn one group ahead of its use

  // For whole warps. `layout` has the number of `groups` and `groups_each`.
  template <class Layout>
  __device__ int next(const LinearLaunch& a, const Layout& layout) {
    const int own = layout.groups_each, shared = own * static_cast<int>(gridDim.x);
    int group = static_cast<int>(blockIdx.x) * own + taken;
    if (own == 0 && taken == 0) draw(a);
    if (taken >= own) {
      const int drawn = static_cast<int>(__shfl_sync(~0u, ticket, 0));
      group = shared + drawn;
      if (group >= layout.groups) {
        // Each block draws one number that is too high. The block that draws the last one sets the
        // ticket back to zero.
        const int last = layout.groups - shared + static_cast<int>(gridDim.x) - 1;
        if (drawn == last && threadIdx.x % 32 == 0) *a.gemv.ticket = 0;
        return kNoMore;
      }
    }
    if (++taken >= own) draw(a);
    return group;
  }

 private:
  __device__ void draw(const LinearLaunch& a) {
    if (threadIdx.x % 32 == 0) ticket = atomicAdd(a.gemv.ticket, 1u);
  }
};

}  // namespace skald::cuda
