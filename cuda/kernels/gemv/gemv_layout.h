// How the two kernels of gemv_sm90 divide a block's shared memory. Calls no CUDA, so that a plan
// can ask whether a product fits.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cuda/kernels/groups.h"
#include "cuda/kernels/linear.h"

namespace skald::cuda {

inline constexpr int kConsumers = 256;
inline constexpr int kConsumerWarps = kConsumers / 32;

inline constexpr int kTileRows = 8;
inline constexpr int kTileCols = 1024;
inline constexpr int kStep = 64;  // columns that a warp takes at a time
inline constexpr int kRowBytes = kTileCols * 2;
inline constexpr int kSlotBytes = kTileRows * kRowBytes;
inline constexpr int kMostRingSlots = 10;

// The kernel for 2 to 16 rows.
namespace gemv_rows {

inline constexpr int kMostRows = 16;
inline constexpr int kFewestSlots = 4;

// More than half of a multiprocessor's shared memory, so that no multiprocessor has two blocks
// while another has none. Little enough that a block or two of attention_decode fit beside it.
inline constexpr int kBlockBytes = 160 * 1024;
inline constexpr int kMostBlockBytes = 226 * 1024;

// Shared memory: the ring, two sets of partial sums, the activations. A row of activations starts
// 64 bytes beyond a multiple of 128, so that reads of two rows use different banks.
struct Layout {
  int slots;
  int partial_rows;
  // activation_row: the distance of two rows of activations, in 16-bit numbers.
  int partials_at, activations_at, activation_row;
  int bytes;
  int groups;  // groups of kTileRows weight rows
  // Groups that belong to each block from the start; the others go to whichever block asks first.
  int groups_each;
};

inline Layout layout_for(const LinearShape& a, int blocks) {
  Layout layout;
  layout.groups = static_cast<int>((a.outs + kTileRows - 1) / kTileRows);
  layout.groups_each = groups_of_each(layout.groups, blocks);
  layout.partial_rows = a.rows <= 8 ? 8 : kMostRows;
  layout.activation_row = static_cast<int>(a.ins) + 32;
  const int partials = 2 * kConsumerWarps * kTileRows * layout.partial_rows * 4;
  const int64_t others = partials + int64_t{a.rows} * layout.activation_row * 2;
  const bool usual = others + kFewestSlots * kSlotBytes <= kBlockBytes;
  const int64_t slots = ((usual ? kBlockBytes : kMostBlockBytes) - others) / kSlotBytes;
  layout.slots = static_cast<int>(std::clamp<int64_t>(slots, 0, kMostRingSlots));
  layout.partials_at = layout.slots * kSlotBytes;
  layout.activations_at = layout.partials_at + partials;
  layout.bytes = static_cast<int>(layout.partials_at + others);
  return layout;
}

}  // namespace gemv_rows

// The kernel for one row.
namespace gemv_row {

inline constexpr int kFewestSlots = 4;

// Shared memory of a block that has its multiprocessor to itself.
inline constexpr int kBlockBytes = 160 * 1024;
inline constexpr int kMostBlockBytes = 226 * 1024;
// Shared memory of the products before and after attention: a block of attention_decode with its
// ring fits beside one of their blocks.
inline constexpr int kBesideAttentionBytes = 142 * 1024;
// Paired kernels (GemvPart::paired): two blocks fit on a multiprocessor beside one of
// attention_decode. A block starts where a block of the last kernel but one has ended, so its ring
// is full when its turn comes. The blocks of a kernel lie one to a multiprocessor only if those of
// the kernels before did. Gated products restore that placement once a layer: they take more than
// half of the shared memory, so no two of their blocks share a multiprocessor.
inline constexpr int kPairedBytes = 105 * 1024, kGatedBytes = 120 * 1024,
                     kFewestGatedBytes = 115 * 1024;

// The warps' shares of a group's sums, [kTileRows, kConsumerWarps] floats. A warp waits for the
// others at least once in kConsumerWarps groups, so none is ahead by more than twice that.
inline constexpr int kSets = 2 * kConsumerWarps;
inline constexpr int kSetFloats = kTileRows * kConsumerWarps;

// Shared memory: the ring, the sets of shares, the activations.
struct Layout {
  int slots, steps;  // slots of the ring; steps of kStep columns in a row
  int sets_at, activations_at, bytes;
  int groups;  // groups of kTileRows weight rows
  int own;     // groups that belong to each block from the start
  // True: the other groups go to whichever block asks first. False: the first blocks get one more
  // group each.
  bool by_ticket;
};

inline Layout layout_for(const LinearShape& a, bool paired, int blocks) {
  Layout layout;
  layout.groups = static_cast<int>((a.outs + kTileRows - 1) / kTileRows);
  layout.own = groups_of_each(layout.groups, blocks);
  layout.by_ticket = layout.own < layout.groups / blocks;
  layout.steps = static_cast<int>(a.ins / kStep);
  const int sets = kSets * kSetFloats * 4, others = sets + static_cast<int>(a.ins) * 2;
  const bool gated = a.epilogue == Epilogue::Gated;
  const auto slots = [&](int bytes) { return (bytes - others) / kSlotBytes; };
  // Products before attention store their results. The product after attention adds to the residual
  // stream; so does the down projection, whose input is much wider.
  const bool beside =
      a.epilogue == Epilogue::Store || (a.epilogue == Epilogue::AddTo && a.ins < 2 * a.outs);
  const int alone = beside ? kBesideAttentionBytes : kBlockBytes;
  layout.slots = slots(!paired ? alone : gated ? kGatedBytes : kPairedBytes);
  if (layout.slots < kFewestSlots) layout.slots = slots(kMostBlockBytes);
  layout.slots = std::clamp(layout.slots, 0, kMostRingSlots);
  layout.sets_at = layout.slots * kSlotBytes;
  layout.activations_at = layout.sets_at + sets;
  layout.bytes = layout.sets_at + others;
  if (paired && gated) layout.bytes = std::max(layout.bytes, kFewestGatedBytes);
  return layout;
}

}  // namespace gemv_row

}  // namespace skald::cuda
