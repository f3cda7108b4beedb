// How gemv_q_sm90 divides its shared memory, and the warp that fetches tiles.
#pragma once

#include <algorithm>

#include "cuda/kernels/device/ptx.cuh"
#include "cuda/kernels/device/shares.cuh"
#include "cuda/kernels/gemv_q/one_row.cuh"
#include "cuda/kernels/linear.h"

namespace skald::cuda {

inline constexpr int kFewestSlots = 2, kUsualSlots = 3, kMostSlots = 12;
inline constexpr int kFewestSets = 2, kMostSets = 4;  // of partial sums

// Shared memory of which a multiprocessor has room for two blocks: this kernel's and the next
// one's, whose ring is full by the time this one ends. What is added to the residual stream, every
// second product of a chain, has more than half of it, so that no two blocks of a kernel are
// together. They were: beside a block of attention there are no registers for two of these, so
// those of the product after it went to other multiprocessors, two on many. It has the longer rows
// too: of wide models so much longer that their digits take a third of it. Where rows need more,
// the next kernel waits.
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
// And not for three, of which two might be this kernel's while another multiprocessor has none.
inline constexpr int kLeastBytes = 76 * 1024, kLeastAddedBytes = 115 * 1024;
inline constexpr int kMostBlockBytes = 226 * 1024;

// Shared memory: the ring, sets of partial sums, the activations. Sets are as many as leave the
// ring its slots.
struct Layout {
  int parts;                  // of a row of the matrix
  int records, record_bytes;  // of a group of rows
  int tile_records, tiles;    // of a group, whose last tile may have fewer
  int end_at;                 // where that one ends, in bytes; 0 where it has all
  int turns;                  // of the activations
  int row_bytes;              // of their digits, of whole tiles
  float column_share;         // one over the columns
  bool enough;                // shared memory
  int slots, slot_bytes;
  int sets, set_floats;
  int partials_at, activations_at, bytes;
  int first_block, blocks;  // of the grid, that multiply this matrix
  int groups;               // of rows, of the matrix
  int own;                  // groups that are a block's from the beginning
  bool drawn;               // others go to who comes first
};

// The groups of a block, one after the other: every so many'th as there are blocks, then what the
// ticket gives. Some multiprocessors get a tenth more of the memory's bandwidth than others; but
// rings are filled long before anything is multiplied, so where a block has few groups the first to
// come would take them all.
struct TileGroups {
  int taken = 0;
  unsigned ticket = 0;  // asked for one group ahead of its use

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
        // Each block draws one that is too high. The last of these leaves the ticket as it was.
        const int last = layout.groups - shared + layout.blocks - 1;
        if (drawn == last) *a.ticket = 0;
        return kNoMore;
      }
    }
    if (++taken >= layout.own && layout.drawn) ticket = lane_adds(a.ticket, 1);
    return group;
  }

 private:
  // The compiler would move it to a uniform register, and wait for it, as soon as it is asked for.
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
  // Whole turns: of the last tile the parts beyond the row are multiplied too, by zeros.
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

// What belongs to the ring's slots: one address and a few constants for a consumer.
struct Slots {
  uint64_t full[kMostSlots], empty[kMostSlots];
  int64_t end[kMostSlots];  // not 0: there is no tile any more
};
// The groups that a block multiplies, one after the other, kNoMore in the end. The producer is
// ahead of the consumers by as many tiles as there are slots, these of the finisher by its sets.
inline constexpr int kGroupsAhead = 32;
static_assert(kGroupsAhead > kMostSlots + kMostSets + 2);

// What tiles at the end of a group leave as it is, is multiplied by zeros, and so are to be
// numbers. For all threads, before any copy.
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

// LinearLaunch::heeds. Until three quarters of the blocks ahead have told, or the kernel ahead has
// ended: the barrier is of activations that were waited for.
__device__ inline void wait_until_told(const unsigned* told, uint32_t staged) {
  const int most = static_cast<int>(gridDim.x) * 3 / 4;
  while (load_relaxed(told) < most && !barrier_passed(staged, 0)) continue;
}

// For one lane, and with as little as possible from a slot's release to its next copy: what of a
// ring is empty meanwhile does not come from memory. `staged`: a barrier that is passed when the
// first activations are there.
__device__ inline void fetch(const LinearLaunch& a, const Layout& layout, char* ring, Slots& at,
                             int* sequence, uint32_t staged) {
  const uint64_t policy = evict_first_policy();
  const int tile_bytes = layout.tile_records * layout.record_bytes;
  const int64_t group_bytes = int64_t{layout.records} * layout.record_bytes;
  Turn turn;
  TileGroups groups;
  // In the first lap nobody waits: the phase before a barrier's first counts as over.
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
