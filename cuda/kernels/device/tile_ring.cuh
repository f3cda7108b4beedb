// How gemv_q_sm90 divides its shared memory, and the warp that fetches tiles.
#pragma once

#include <algorithm>

#include "cuda/kernels/device/ptx.cuh"
#include "cuda/kernels/device/shares.cuh"
#include "cuda/kernels/device/tile_rows.cuh"
#include "cuda/kernels/linear.h"

namespace skald::cuda {

inline constexpr int kPartialRow = 20;  // floats: 16, and no bank twice
inline constexpr int kFewestSlots = 2, kUsualSlots = 3, kMostSlots = 12;
inline constexpr int kMostSets = 4;  // of partial sums

// Shared memory of which a multiprocessor has room for two blocks: this kernel's and the next one's,
// whose ring is full by the time this one ends. Where rows need more, the next one waits.
inline constexpr int kHalfBytes = 112 * 1024;
inline constexpr int kMostBlockBytes = 226 * 1024;

// Shared memory: the ring, sets of partial sums, the activations, their scales (a part's rows
// together) and their sums: see Activations.
struct Layout {
  int parts;    // of a row of the matrix
  int records;  // of a group of rows
  int record_bytes, tile_records;
  int tiles;    // of a group
  bool enough;  // shared memory
  int slots, slot_bytes;
  int sets, set_floats;
  int partials_at, activations_at, activation_row, scales_at, sums_at, bytes;
  int groups, groups_each;  // as in gemv_sm90
};

template <class F>
Layout layout_for(const LinearLaunch& a, int blocks) {
  constexpr int kTileCols = kWarps * kSlotParts<F> * tiles::kPartCols;
  Layout layout;
  layout.records = static_cast<int>((a.ins + F::kRecordCols - 1) / F::kRecordCols);
  layout.parts = layout.records * F::kParts;
  layout.record_bytes = F::kRecordBytes;
  layout.tile_records = std::min(layout.records, kTileCols / F::kRecordCols);
  layout.tiles = (layout.records + layout.tile_records - 1) / layout.tile_records;
  layout.slot_bytes = (layout.tile_records * F::kRecordBytes + 127) / 128 * 128;
  layout.groups = static_cast<int>((a.outs + tiles::kRows - 1) / tiles::kRows);
  layout.groups_each = groups_of_each(layout.groups, blocks);

  layout.sets = a.rows <= 4 ? kMostSets : kMostSets / 2;
  layout.set_floats = kWarps * a.rows * kPartialRow;
  const int partials = layout.sets * layout.set_floats * 4;
  layout.activation_row = layout.parts * tiles::kPartCols + 32;
  const int64_t activations = int64_t{a.rows} * layout.activation_row * 2;
  const int scales = layout.parts * even_rows(a.rows) * 4;
  const int sums = layout.parts * (kSumsByProduct<F> ? a.rows : even_rows(a.rows)) *
                   (tiles::kPartCols / F::Scales::kCols) * 4;
  const int64_t others = partials + activations + scales + sums;
  const bool half = others + kUsualSlots * layout.slot_bytes <= kHalfBytes;
  const int64_t slots = ((half ? kHalfBytes : kMostBlockBytes) - others) / layout.slot_bytes;
  layout.slots = static_cast<int>(std::clamp<int64_t>(slots, 0, kMostSlots));
  layout.enough = layout.slots >= kFewestSlots;
  layout.partials_at = layout.slots * layout.slot_bytes;
  layout.activations_at = layout.partials_at + partials;
  layout.scales_at = static_cast<int>(layout.activations_at + activations);
  layout.sums_at = layout.scales_at + scales;
  layout.bytes = layout.sums_at + sums;
  return layout;
}

// For one warp; one lane issues all copies, always the same.
__device__ inline void fetch(const LinearLaunch& a, const Layout& layout, char* ring, int* group_at,
                             uint64_t* full, uint64_t* empty) {
  const uint64_t policy = evict_first_policy();
  const char* weight = static_cast<const char*>(a.weight);
  const int64_t group_bytes = int64_t{layout.records} * layout.record_bytes;
  Turn turn;
  Groups groups;
  for (;;) {
    const int group = groups.next(a, layout);
    if (group == kNoMore) break;
    for (int record = 0; record < layout.records;
         record += layout.tile_records, turn.next(layout.slots)) {
      const int records = min(layout.tile_records, layout.records - record);
      const uint32_t bytes = static_cast<uint32_t>(records * layout.record_bytes);
      if (turn.lap > 0) barrier_wait(&empty[turn.slot], (turn.lap - 1) & 1);
      if (elect_lane()) {
        group_at[turn.slot] = group;
        barrier_expect_bytes(&full[turn.slot], bytes);
        bulk_copy(ring + turn.slot * layout.slot_bytes,
                  weight + group * group_bytes + int64_t{record} * layout.record_bytes, bytes,
                  &full[turn.slot], policy);
      }
      __syncwarp();
    }
  }
  if (turn.lap > 0) barrier_wait(&empty[turn.slot], (turn.lap - 1) & 1);
  if (elect_lane()) {
    group_at[turn.slot] = kNoMore;
    barrier_arrive(&full[turn.slot]);
  }
}

}  // namespace skald::cuda
