// How gemv_q_sm90 divides its shared memory, and the warp that fetches tiles.
#pragma once

#include <algorithm>

#include "cuda/kernels/device/ptx.cuh"
#include "cuda/kernels/device/shares.cuh"
#include "cuda/kernels/device/tile_rows.cuh"
#include "cuda/kernels/linear.h"

namespace skald::cuda {

inline constexpr int kPartialRow = 20;  // floats: 16, and no bank twice
inline constexpr int kTileCols = kWarps * tiles::kPartCols;
inline constexpr int kFewestSlots = 3, kUsualSlots = 4, kMostSlots = 12;
inline constexpr int kMostSets = 4;  // of partial sums; each has one team and one finisher

// Where a group has few tiles, two teams of 8 warps take turns at groups, and a warp takes two
// parts of a tile: half as many partial sums and meetings. Each has half of the ring: copies arrive
// in any order, and a barrier can only be asked about its last phase, so whoever waits for a slot
// has to have seen all that came into it.
inline constexpr int kMostTeams = 2, kMostTeamTiles = 2;

// See gemv_sm90: more than half of the shared memory, and little enough for attention beside it.
inline constexpr int kBlockBytes = 176 * 1024;
inline constexpr int kMostBlockBytes = 226 * 1024;

// Shared memory: the ring, sets of partial sums, the activations, their scales (a part's 8 rows
// together) and their sums: see Activations.
struct Layout {
  int parts;    // of a row of the matrix
  int records;  // of a group of rows
  int record_bytes, tile_records;
  int tiles;  // of a group
  int teams;
  bool enough;            // shared memory
  int slots, slot_bytes;  // of each team
  int sets, set_floats;
  int partials_at, activations_at, activation_row, scales_at, sums_at, bytes;
  int groups, groups_each;  // as in gemv_sm90
};

template <class F>
Layout layout_of_teams(const LinearLaunch& a, int blocks, int teams) {
  Layout layout;
  layout.teams = teams;
  layout.records = static_cast<int>((a.ins + F::kRecordCols - 1) / F::kRecordCols);
  layout.parts = layout.records * F::kParts;
  layout.record_bytes = F::kRecordBytes;
  layout.tile_records = std::min(layout.records, kTileCols / F::kRecordCols);
  layout.slot_bytes = (layout.tile_records * F::kRecordBytes + 127) / 128 * 128;
  layout.groups = static_cast<int>((a.outs + tiles::kRows - 1) / tiles::kRows);
  layout.groups_each = groups_of_each(layout.groups, blocks);

  layout.tiles = (layout.parts + kWarps - 1) / kWarps;
  layout.sets = a.rows <= 4 || teams > 1 ? kMostSets : kMostSets / 2;
  layout.set_floats = kWarps / teams * a.rows * kPartialRow;
  const int partials = layout.sets * layout.set_floats * 4;
  layout.activation_row = layout.parts * tiles::kPartCols + 32;
  const int64_t activations = int64_t{a.rows} * layout.activation_row * 2;
  const int scales = layout.parts * kMostRows * 4;
  const int sums = layout.parts * (kSumsByProduct<F> ? a.rows : kMostRows) *
                   (tiles::kPartCols / F::Scales::kCols) * 4;
  const int64_t others = partials + activations + scales + sums;
  const bool usual = others + kUsualSlots * layout.slot_bytes <= kBlockBytes;
  const int64_t slots = ((usual ? kBlockBytes : kMostBlockBytes) - others) / layout.slot_bytes;
  layout.slots = static_cast<int>(std::clamp<int64_t>(slots, 0, kMostSlots));
  layout.enough = layout.slots >= kFewestSlots;
  layout.slots /= teams;
  layout.partials_at = layout.slots * teams * layout.slot_bytes;
  layout.activations_at = layout.partials_at + partials;
  layout.scales_at = static_cast<int>(layout.activations_at + activations);
  layout.sums_at = layout.scales_at + scales;
  layout.bytes = layout.sums_at + sums;
  return layout;
}

// The order of sums follows from the number of teams, so this must not depend on the rows.
template <class F>
Layout layout_for(const LinearLaunch& a, int blocks) {
  LinearLaunch most = a;
  most.rows = kMostRows;
  const Layout two = layout_of_teams<F>(most, blocks, kMostTeams);
  const bool fits = two.tiles <= kMostTeamTiles && two.slots * kMostTeams >= kUsualSlots;
  return layout_of_teams<F>(a, blocks, fits ? kMostTeams : 1);
}

// For one warp; one lane issues all copies, always the same.
__device__ inline void fetch(const LinearLaunch& a, const Layout& layout, char* ring, int* group_at,
                             uint64_t* full, uint64_t* empty) {
  const uint64_t policy = evict_first_policy();
  const char* weight = static_cast<const char*>(a.weight);
  const int64_t group_bytes = int64_t{layout.records} * layout.record_bytes;
  Turn turn, other;  // of the team whose group is next, and of the other
  int first = 0;     // of its slots
  const auto next_team = [&] {
    if (layout.teams == 1) return;
    const Turn last = turn;
    turn = other;
    other = last;
    first = layout.slots - first;
  };
  Groups groups;
  for (;; next_team()) {
    const int group = groups.next(a, layout);
    if (group == kNoMore) break;
    for (int record = 0; record < layout.records;
         record += layout.tile_records, turn.next(layout.slots)) {
      const int records = min(layout.tile_records, layout.records - record);
      const uint32_t bytes = static_cast<uint32_t>(records * layout.record_bytes);
      const int slot = first + turn.slot;
      if (turn.lap > 0) barrier_wait(&empty[slot], (turn.lap - 1) & 1);
      if (elect_lane()) {
        group_at[slot] = group;
        barrier_expect_bytes(&full[slot], bytes);
        bulk_copy(ring + slot * layout.slot_bytes,
                  weight + group * group_bytes + int64_t{record} * layout.record_bytes, bytes,
                  &full[slot], policy);
      }
      __syncwarp();
    }
  }
  for (int team = 0; team < layout.teams; ++team, next_team()) {
    const int slot = first + turn.slot;
    if (turn.lap > 0) barrier_wait(&empty[slot], (turn.lap - 1) & 1);
    if (elect_lane()) {
      group_at[slot] = kNoMore;
      barrier_arrive(&full[slot]);
    }
    __syncwarp();
  }
}

}  // namespace skald::cuda
