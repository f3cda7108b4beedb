// How gemv_q_sm90 divides its shared memory, and its producer.
#pragma once

#include <algorithm>

#include "cuda/kernels/device/launch.cuh"
#include "cuda/kernels/device/ptx.cuh"
#include "cuda/kernels/device/shares.cuh"
#include "cuda/kernels/gemv_q/gemv_q_layout.h"
#include "cuda/kernels/gemv_q/one_row.h"
#include "cuda/kernels/gemv_q/row_router.cuh"
#include "cuda/kernels/linear.h"

namespace skald::cuda {

// The groups of a block, one after the other: every layout.blocks-th one, then those that it draws
// from the ticket. Drawing helps because some multiprocessors get a tenth more of the memory's
// bandwidth than others. But rings fill long before anything is multiplied: if blocks had few
// groups, the blocks that start first would draw them all.
struct TileGroups {
  int taken = 0;
  unsigned ticket = 0;  // drawn one group ahead of its use

  __device__ static int own(const Layout& layout, int i) {
    const int group = static_cast<int>(blockIdx.x) - layout.first_block + i * layout.blocks;
    return i < layout.own && group < layout.groups ? group : kNoMore;
  }
  // One thread calls it.
  __device__ int next(const LinearLaunch& a, const Layout& layout) {
    const int shared = layout.own * layout.blocks;
    int group = own(layout, taken);
    if (taken >= layout.own && layout.drawn) {
      const int drawn = needed_now(ticket);
      group = shared + drawn;
      if (group >= layout.groups) {
        // Each block draws one number that is too high. The block that draws the last one sets the
        // ticket back to zero.
        const int last = layout.groups - shared + layout.blocks - 1;
        if (drawn == last) *a.gemv.ticket = 0;
        return kNoMore;
      }
    }
    if (++taken >= layout.own && layout.drawn) ticket = lane_adds(a.gemv.ticket, 1);
    return group;
  }

 private:
  // Keeps the ticket out of uniform registers. Otherwise the compiler moves the ticket to one as
  // soon as it is drawn, and waits for the answer there.
  __device__ static int needed_now(unsigned ticket) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    return static_cast<int>(__shfl_sync(__activemask(), ticket, lane));
  }
};

// The barriers and marks of the ring's slots: one struct, so that a consumer needs one address.
struct Slots {
  uint64_t full[kMostSlots], empty[kMostSlots];
  int64_t end[kMostSlots];  // not 0: there are no more tiles
};
// The size of the ring of group numbers for the finisher. The producer is ahead of the consumers by
// no more than the ring's slots, and the consumers are ahead of the finisher by no more than its
// sets. The last number is kNoMore.
inline constexpr int kGroupsAhead = 32;
static_assert(kGroupsAhead > kMostSlots + kMostSets + 2);

// Zeroes the bytes of the ring that a group's last tile does not fill. They are multiplied by
// zeros, so they must not hold infinities or NaN. All threads call this before the first copy.
__device__ inline void clear_ends(const Layout& layout, char* ring) {
  if (layout.end_at == 0) return;
#pragma unroll 1
  for (int slot = 0; slot < layout.slots; ++slot) {
    char* at = ring + slot * layout.slot_bytes;
#pragma unroll 1
    for (int i = layout.end_at + static_cast<int>(threadIdx.x) * 16; i < layout.slot_bytes;
         i += static_cast<int>(blockDim.x) * 16) {
      *reinterpret_cast<uint4*>(at + i) = {};
    }
  }
  shared_writes_before_copies();
}

// A chosen expert: its number, and its matrix.
struct ChosenMatrix {
  const char* at;
  int64_t expert;
};

// Finds the chosen experts. A warp calls it. Waits for the choice. The last one may be an expert
// that every row has.
__device__ inline void find_experts(const LinearLaunch& a, ChosenMatrix* experts) {
  const auto put = [&](int slot, int64_t expert) {
    experts[slot] = {static_cast<const char*>(a.weight) + expert * a.chosen.stride, expert};
  };
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (a.router.weight) {
    receive_choice(a.router, true, [&](const auto& choice) {
      choice.for_each_chosen([&](int slot, int expert, int) { put(slot, expert); });
    });
  } else {
    if (!a.chosen.early) wait_for_kernel_ahead();
    const int chosen = a.experts.used - (a.chosen.shared ? 1 : 0);
    if (lane < chosen) put(lane, __ldcg(a.chosen.chosen + lane));
  }
  if (a.chosen.shared && lane == 0) {
    experts[a.experts.used - 1] = {static_cast<const char*>(a.chosen.shared), -1};
  }
  __syncwarp();
}

// Brings records of a group from the matrices of experts that lie beside one another.
struct RecordsBeside {
  const ChosenMatrix* expert;
  int64_t group_at;  // of the group in an expert's matrix
  int record = 0;    // the expert's next record

  __device__ void copy(const Layout& layout, char* to, int records, uint64_t* full,
                       uint64_t policy) {
    while (records > 0) {
      const int some = min(records, layout.expert_records - record);
      const auto bytes = static_cast<uint32_t>(some * layout.record_bytes);
      bulk_copy(to, expert->at + group_at + record * layout.record_bytes, bytes, full, policy);
      to += bytes;
      records -= some;
      record += some;
      if (record == layout.expert_records) record = 0, ++expert;
    }
  }
};

// For GemvQPart::wait. Waits until three quarters of the sender's blocks have issued the loads of
// all their tiles, or until the kernel ahead has ended: then its activations pass the barrier
// `staged`.
__device__ inline void wait_for_signals(const unsigned* signals, uint32_t staged) {
  const int most = static_cast<int>(gridDim.x) * 3 / 4;
  while (load_relaxed(signals) < most && !barrier_passed(staged, 0)) continue;
}

// Tiles that the producer asks for before the first one has arrived, if the product routes the row.
inline constexpr int kFirstTiles = 2;

// The producer; one lane runs it. Few instructions lie between a slot's release and its next copy:
// during these the slot brings nothing from memory. `staged`: the barrier that is passed when the
// first activations are staged. `experts`: from find_experts().
template <bool kExperts>
__device__ void fetch(const LinearLaunch& a, const Layout& layout, char* ring, Slots& at,
                      int* sequence, uint32_t staged, const ChosenMatrix* experts) {
  const uint64_t policy = evict_first_policy();
  const int tile_bytes = layout.tile_records * layout.record_bytes;
  const int64_t group_bytes = int64_t{layout.records} * layout.record_bytes;
  Turn turn;
  TileGroups groups;
  // In the first lap no wait takes time: the phase before a barrier's first phase counts as
  // complete.
  const auto wait_until_empty = [&] { lane_waits(&at.empty[turn.slot], (turn.lap - 1) & 1); };
  int count = 0;
  for (int group; (group = groups.next(a, layout)) != kNoMore; ++count) {
    sequence[count % kGroupsAhead] = group;
    const char* from = static_cast<const char*>(a.weight) + group * group_bytes;
    if (kExperts && !a.experts.beside) {
      const int slot = group / layout.expert_groups;
      from = experts[slot].at + (group - slot * layout.expert_groups) * group_bytes;
    }
    RecordsBeside beside = {experts, int64_t{group} * layout.expert_records * layout.record_bytes};
#pragma unroll 1
    for (int tile = 0; tile < layout.tiles; ++tile, turn.next(layout.slots), from += tile_bytes) {
      const bool whole = layout.end_at == 0 || tile + 1 < layout.tiles;
      const auto bytes = static_cast<uint32_t>(whole ? tile_bytes : layout.end_at);
      wait_until_empty();
      // If all blocks ask for whole rings at once, every first tile arrives late. Elsewhere the
      // kernel ahead is still running then; here the weights are known only after its end.
      if (kExperts && a.router.weight && count * layout.tiles + tile == kFirstTiles) {
        lane_waits(&at.full[0], 0);
      }
      if (a.gemv_q.wait && count == 0 && tile == 1) wait_for_signals(a.gemv_q.wait, staged);
      at.end[turn.slot] = 0;
      barrier_expect_bytes(&at.full[turn.slot], bytes);
      char* const to = ring + turn.slot * layout.slot_bytes;
      if (kExperts && a.experts.beside) {
        const int records = whole ? layout.tile_records : layout.records % layout.tile_records;
        beside.copy(layout, to, records, &at.full[turn.slot], policy);
      } else {
        bulk_copy(to, from, bytes, &at.full[turn.slot], policy);
      }
    }
  }
  if (a.gemv_q.signal) lane_adds(a.gemv_q.signal, 1);
  wait_until_empty();
  sequence[count % kGroupsAhead] = kNoMore;
  at.end[turn.slot] = 1;
  barrier_arrive(&at.full[turn.slot]);
  if (a.gemv_q.wait) lane_adds(a.gemv_q.wait, -1);
}

}  // namespace skald::cuda
