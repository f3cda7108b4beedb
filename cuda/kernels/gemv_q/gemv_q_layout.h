// How gemv_q_sm90 divides a block's shared memory. Calls no CUDA, so that a plan can ask whether a
// product fits.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cuda/kernels/gemv_q/one_row.h"
#include "cuda/kernels/linear.h"

namespace skald::cuda {

inline constexpr int kFewestSlots = 2, kUsualSlots = 3, kMostSlots = 12;
inline constexpr int kFewestSets = 2, kMostSets = 4;  // sets of partial sums

// Shared memory of a block. Two blocks fit on a multiprocessor: this kernel's and the next one's,
// whose ring is full by the time this kernel ends. `added` is for products that are added to the
// residual stream, every second one of a chain. It is more than half of a multiprocessor's memory,
// so that no two blocks of such a kernel share a multiprocessor. Otherwise they would after
// attention: a multiprocessor has no registers for two of these blocks beside one of attention, so
// the blocks of the product after attention would crowd onto other multiprocessors, two on each.
// Products that are added also have the longer rows, whose digits take a third of `added` in wide
// models. If a row needs more, a block takes a whole multiprocessor, and the next kernel waits.
struct BlockBytes {
  int half, added;
};
inline bool is_added(const LinearShape& a) {
  return a.epilogue == Epilogue::AddTo || a.epilogue == Epilogue::Floats;
}
inline bool is_small(const LinearShape& a) { return (is_added(a) ? a.outs : a.ins) <= 2048; }
inline BlockBytes block_bytes(const LinearShape& a) {
  return is_small(a) ? BlockBytes{105 * 1024, 118 * 1024} : BlockBytes{92 * 1024, 132 * 1024};
}
// Lower bounds that keep three blocks from fitting: two of them could belong to this kernel while
// another multiprocessor has none.
inline constexpr int kLeastBytes = 76 * 1024, kLeastAddedBytes = 115 * 1024;
inline constexpr int kMostBlockBytes = 226 * 1024;
// Static memory that chosen experts need besides.
inline constexpr int kExpertsOwnBytes = 1024;

// Shared memory: the ring, sets of partial sums, the activations. There are as many sets as fit
// beside the ring's slots.
struct Layout {
  int parts;                  // parts of a row of the matrix
  int records, record_bytes;  // records of a group of 16 weight rows
  int tile_records, tiles;    // tiles of a group; the last tile may have fewer records
  int end_at;                 // bytes of a group's last tile; 0 if it has all of its records
  int turns;                  // turns in which the activations are staged
  int row_bytes;              // bytes of the digits of a row, in whole tiles
  float column_share;         // one over the columns
  bool enough;                // shared memory suffices
  bool half;                  // two blocks fit on a multiprocessor
  int slots, slot_bytes;
  int sets, set_floats;
  int partials_at, activations_at, bytes;
  int first_block, blocks;  // the part of the grid that multiplies this matrix
  int groups;               // the matrix's groups of 16 weight rows
  int own;                  // groups that belong to each block from the start
  bool drawn;               // the other groups go to whichever block asks first

  // Chosen experts, each with as many groups or columns. `of_part` times a part's number, without
  // the lowest 16 bits, is the expert that has the part.
  int expert_groups, expert_records, expert_ins;
  int expert_cols;  // with the padding of the last record
  unsigned of_part;
};

template <class F>
Layout layout_for(const LinearShape& a, int blocks) {
  constexpr int kTileCols = kTileParts<F> * tiles::kPartCols;
  Layout layout;
  const int beside = a.experts.beside ? a.experts.used : 1;
  const int below = a.experts.used && !a.experts.beside ? a.experts.used : 1;
  layout.expert_ins = static_cast<int>(a.ins / beside);
  layout.expert_records = (layout.expert_ins + F::kRecordCols - 1) / F::kRecordCols;
  layout.expert_cols = layout.expert_records * F::kRecordCols;
  layout.records = beside * layout.expert_records;
  layout.parts = layout.records * F::kParts;
  layout.record_bytes = F::kRecordBytes;
  layout.tile_records = kTileCols / F::kRecordCols;
  layout.tiles = (layout.records + layout.tile_records - 1) / layout.tile_records;
  layout.end_at = layout.records % layout.tile_records * layout.record_bytes;
  layout.turns = (layout.parts + kStageParts - 1) / kStageParts;
  layout.row_bytes = layout.tiles * kTileParts<F> * kStagedBytes<F>;
  layout.column_share = 1 / static_cast<float>(a.ins);
  layout.slot_bytes = (layout.tile_records * F::kRecordBytes + 127) / 128 * 128;
  layout.first_block = 0;
  layout.blocks = blocks;
  layout.groups = static_cast<int>((a.outs + tiles::kRows - 1) / tiles::kRows);
  layout.expert_groups = layout.groups / below;
  const int expert_parts = layout.expert_records * F::kParts;
  layout.of_part = (65536 + expert_parts - 1) / expert_parts;
  constexpr int kFewGroups = 8;
  const int each = layout.groups / blocks;
  layout.drawn = each >= kFewGroups;
  layout.own = layout.drawn ? each * 3 / 4 : (layout.groups + blocks - 1) / blocks;

  layout.set_floats = kWarps * kPartials;
  const int set_bytes = layout.set_floats * 4;
  // Whole turns: parts of the last tile beyond the row's end are multiplied as well, by zeros.
  const int64_t digits = int64_t{layout.turns} * kStageParts * kStagedBytes<F>;
  const int64_t others = kFewestSets * set_bytes + digits;
  const int usual_bytes = is_added(a) ? block_bytes(a).added : block_bytes(a).half;
  const int half_bytes = usual_bytes - (a.experts.used ? kExpertsOwnBytes : 0);
  const int most_bytes = kMostBlockBytes - (a.experts.used ? kExpertsOwnBytes : 0);
  layout.half = others + kUsualSlots * layout.slot_bytes <= half_bytes;
  const int64_t room = (layout.half ? half_bytes : most_bytes) - others;
  layout.slots = static_cast<int>(std::clamp<int64_t>(room / layout.slot_bytes, 0, kMostSlots));
  layout.enough = layout.slots >= kFewestSlots && layout.turns <= kMostTurns;
  // With larger numbers `of_part` would not be exact.
  if (a.experts.beside && layout.turns * kStageParts * expert_parts >= 65536) layout.enough = false;
  layout.partials_at = layout.slots * layout.slot_bytes;
  const int64_t more_sets = (room - layout.partials_at) / set_bytes;
  layout.sets =
      static_cast<int>(std::clamp<int64_t>(kFewestSets + more_sets, kFewestSets, kMostSets));
  layout.activations_at = layout.partials_at + layout.sets * set_bytes;
  const auto used = static_cast<int>(layout.activations_at + digits);
  layout.bytes = std::max(used, is_added(a) ? kLeastAddedBytes : kLeastBytes);
  return layout;
}

}  // namespace skald::cuda
