// How gemv_q_sm90 divides its shared memory, and its producer.
#pragma once

#include <algorithm>

#include "cuda/kernels/device/ptx.cuh"
#include "cuda/kernels/device/shares.cuh"
#include "cuda/kernels/gemv_q/one_row.cuh"
#include "cuda/kernels/linear.h"

namespace skald::cuda {

inline constexpr int kFewestSlots = 2, kUsualSlots = 3, kMostSlots = 12;
inline constexpr int kFewestSets = 2, kMostSets = 4;  // of partial sums

// Shared memory of a block, so that two fit on a multiprocessor: this kernel's and the next one's,
// whose ring is full by the time this one ends. `added` is for products that are added to the
// residual stream, every second one of a chain. It is more than half of a multiprocessor's memory,
// so that no two blocks of such a kernel share one. Without that they did: a multiprocessor has no
// registers for two of these blocks beside one of attention, so the blocks of the product after
// attention went to other multiprocessors, two to many of them. Products that are added also have
// the longer rows, whose digits take a third of `added` in wide models. If a row needs more, a
// block takes a whole multiprocessor, and the next kernel waits.
struct BlockBytes {
  int half, added;
};
inline bool is_added(const LinearLaunch& a) {
  return a.epilogue == Epilogue::AddTo || a.epilogue == Epilogue::Floats;
}
inline bool is_small(const LinearLaunch& a) { return (is_added(a) ? a.outs : a.ins) <= 2048; }
inline BlockBytes block_bytes(const LinearLaunch& a) {
  return is_small(a) ? BlockBytes{105 * 1024, 118 * 1024} : BlockBytes{92 * 1024, 132 * 1024};
}
// At least so much that three blocks do not fit: two of them could be this kernel's while another
// multiprocessor has none.
inline constexpr int kLeastBytes = 76 * 1024, kLeastAddedBytes = 115 * 1024;
inline constexpr int kMostBlockBytes = 226 * 1024;

// Shared memory: the ring, sets of partial sums, the activations. There are as many sets as leave
// the ring its slots.
struct Layout {
  int parts;                  // of a row of the matrix
  int records, record_bytes;  // of a group of 16 weight rows
  int tile_records, tiles;    // of a group; the last tile may have fewer records
  int end_at;                 // bytes of a group's last tile; 0 if it has all of its records
  int turns;                  // in which the activations are staged
  int row_bytes;              // bytes of the digits of a row, in whole tiles
  float column_share;         // one over the columns
  bool enough;                // whether shared memory suffices
  int slots, slot_bytes;
  int sets, set_floats;
  int partials_at, activations_at, bytes;
  int first_block, blocks;  // the part of the grid that multiplies this matrix
  int groups;               // of 16 weight rows, in the matrix
  int own;                  // groups that belong to each block from the start
  bool drawn;               // whether the other groups go to whichever block asks first
};

// The groups of a block, one after the other: every layout.blocks-th one, then those that it draws
// from the ticket. Drawing helps because some multiprocessors get a tenth more of the memory's
// bandwidth than others. But rings fill long before anything is multiplied: if blocks had few
// groups, the first ones to start would draw them all.
struct TileGroups {
  int taken = 0;
  unsigned ticket = 0;  // drawn one group ahead of its use

  __device__ static int own(const Layout& layout, int i) {
    const int group = static_cast<int>(blockIdx.x) - layout.first_block + i * layout.blocks;
    return i < layout.own && group < layout.groups ? group : kNoMore;
  }
  // For one thread.
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
        if (drawn == last) *a.ticket = 0;
        return kNoMore;
      }
    }
    if (++taken >= layout.own && layout.drawn) ticket = lane_adds(a.ticket, 1);
    return group;
  }

 private:
  // Keeps the ticket out of uniform registers. The compiler would move it to one as soon as it is
  // drawn, and wait for the answer there.
  __device__ static int needed_now(unsigned ticket) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    return static_cast<int>(__shfl_sync(__activemask(), ticket, lane));
  }
};

template <class F>
Layout layout_for(const LinearLaunch& a, int blocks) {
  constexpr int kTileCols = kTileParts<F> * tiles::kPartCols;
  Layout layout;
  layout.records = static_cast<int>((a.ins + F::kRecordCols - 1) / F::kRecordCols);
  layout.parts = layout.records * F::kParts;
  layout.record_bytes = F::kRecordBytes;
  layout.tile_records = kTileCols / F::kRecordCols;
  layout.tiles = (layout.records + layout.tile_records - 1) / layout.tile_records;
  layout.end_at = layout.records % layout.tile_records * layout.record_bytes;
  layout.turns = (layout.parts + kStageParts - 1) / kStageParts;
  layout.row_bytes = layout.tiles * kTileParts<F> * kDigitPartBytes;
  layout.column_share = 1 / static_cast<float>(a.ins);
  layout.slot_bytes = (layout.tile_records * F::kRecordBytes + 127) / 128 * 128;
  layout.first_block = 0;
  layout.blocks = blocks;
  layout.groups = static_cast<int>((a.outs + tiles::kRows - 1) / tiles::kRows);
  constexpr int kFewGroups = 8;
  const int each = layout.groups / blocks;
  layout.drawn = each >= kFewGroups;
  layout.own = layout.drawn ? each * 3 / 4 : (layout.groups + blocks - 1) / blocks;

  layout.set_floats = kWarps * kPartials;
  const int set_bytes = layout.set_floats * 4;
  // Whole turns: parts of the last tile beyond the row are multiplied too, by zeros.
  const int64_t digits = int64_t{layout.turns} * kStageParts * kDigitPartBytes;
  const int64_t others = kFewestSets * set_bytes + digits;
  const int half_bytes = is_added(a) ? block_bytes(a).added : block_bytes(a).half;
  const bool half = others + kUsualSlots * layout.slot_bytes <= half_bytes;
  const int64_t room = (half ? half_bytes : kMostBlockBytes) - others;
  layout.slots = static_cast<int>(std::clamp<int64_t>(room / layout.slot_bytes, 0, kMostSlots));
  layout.enough = layout.slots >= kFewestSlots && layout.turns <= kMostTurns;
  layout.partials_at = layout.slots * layout.slot_bytes;
  const int64_t more_sets = (room - layout.partials_at) / set_bytes;
  layout.sets =
      static_cast<int>(std::clamp<int64_t>(kFewestSets + more_sets, kFewestSets, kMostSets));
  layout.activations_at = layout.partials_at + layout.sets * set_bytes;
  const auto used = static_cast<int>(layout.activations_at + digits);
  layout.bytes = std::max(used, is_added(a) ? kLeastAddedBytes : kLeastBytes);
  return layout;
}

// What belongs to the ring's slots: in one struct, so that a consumer needs one address.
struct Slots {
  uint64_t full[kMostSlots], empty[kMostSlots];
  int64_t end[kMostSlots];  // not 0: there are no more tiles
};
// The size of the ring of group numbers for the finisher. The producer is ahead of the consumers by
// no more than the ring's slots, and the consumers are ahead of the finisher by no more than its
// sets. The last number is kNoMore.
inline constexpr int kGroupsAhead = 32;
static_assert(kGroupsAhead > kMostSlots + kMostSets + 2);

// Zeros the places of the ring that a group's last tile does not fill. They are multiplied by
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

// For LinearLaunch::heeds. Waits until three quarters of the blocks ahead have asked for all of
// their tiles, or until the kernel ahead has ended: `staged` is the barrier of activations that
// come after that.
__device__ inline void wait_until_told(const unsigned* told, uint32_t staged) {
  const int most = static_cast<int>(gridDim.x) * 3 / 4;
  while (load_relaxed(told) < most && !barrier_passed(staged, 0)) continue;
}

// The producer, for one lane. Few instructions stand between a slot's release and its next copy:
// meanwhile that slot brings nothing from memory. `staged`: a barrier that is passed when the first
// activations are there.
__device__ inline void fetch(const LinearLaunch& a, const Layout& layout, char* ring, Slots& at,
                             int* sequence, uint32_t staged) {
  const uint64_t policy = evict_first_policy();
  const int tile_bytes = layout.tile_records * layout.record_bytes;
  const int64_t group_bytes = int64_t{layout.records} * layout.record_bytes;
  Turn turn;
  TileGroups groups;
  // In the first lap nobody waits: the phase before a barrier's first is over.
  const auto wait_until_empty = [&] { lane_waits(&at.empty[turn.slot], (turn.lap - 1) & 1); };
  int count = 0;
  for (int group; (group = groups.next(a, layout)) != kNoMore; ++count) {
    sequence[count % kGroupsAhead] = group;
    const char* from = static_cast<const char*>(a.weight) + group * group_bytes;
#pragma unroll 1
    for (int tile = 0; tile < layout.tiles; ++tile, turn.next(layout.slots), from += tile_bytes) {
      const bool whole = layout.end_at == 0 || tile + 1 < layout.tiles;
      const auto bytes = static_cast<uint32_t>(whole ? tile_bytes : layout.end_at);
      wait_until_empty();
      if (a.heeds && count == 0 && tile == 1) wait_until_told(a.heeds, staged);
      at.end[turn.slot] = 0;
      barrier_expect_bytes(&at.full[turn.slot], bytes);
      bulk_copy(ring + turn.slot * layout.slot_bytes, from, bytes, &at.full[turn.slot], policy);
    }
  }
  if (a.tells) lane_adds(a.tells, 1);
  wait_until_empty();
  sequence[count % kGroupsAhead] = kNoMore;
  at.end[turn.slot] = 1;
  barrier_arrive(&at.full[turn.slot]);
  if (a.heeds) lane_adds(a.heeds, -1);
}

}  // namespace skald::cuda
