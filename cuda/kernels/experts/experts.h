// Routed experts: the norm, the router and each row's choice of experts; products of each chosen
// expert's matrices with the rows that chose it; the sum of the results of a row's experts. The
// device computes and keeps the lists of rows of each expert, so that a captured graph of these
// launches stays valid.
//
// A choice is one of a row's experts. A place is a choice's position in the list of all choices of
// a step, sorted by expert and then by row: the rows of an expert are adjacent. A row's results are
// the same to the last bit whatever other rows there are, as long as the same kernels are launched.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cuda/gpu/stream.h"
#include "cuda/kernels/epilogue.h"
#include "cuda/kernels/kernel_id.h"
#include "engine/program/specs.h"
#include "engine/quant/dtype_enum.h"

namespace skald::cuda {

struct RoutingShape {
  int rows, used, count;  // rows of the step; experts of a row; all experts
  SKALD_HD int choices() const { return rows * used; }
};
// Places of one expert that a block multiplies together.
struct PlacedTile {
  int32_t expert, first, places, unused;
};
struct Routing : RoutingShape {
  int32_t* chosen;      // [rows, used], in the order of their numbers
  float* weights;       // [rows, used]
  int32_t* places;      // [rows, used]
  int32_t* row_of;      // [rows * used], of each place
  int32_t* begins;      // [count + 1], an expert's first place
  PlacedTile* tiles;    // written by place_rows
  int32_t* tile_count;  // the number of tiles
};

inline constexpr int kMostExperts = 1024;  // of a layer

// The rows of a router block, if there are many rows. Few rows have blocks, and a ticket, each.
inline constexpr int kRouteRows = 8, kRouteFewRows = 32;
inline int64_t route_tickets(int64_t rows) {
  return std::max<int64_t>(kRouteFewRows, (rows + kRouteRows - 1) / kRouteRows);
}

// Norms rows, multiplies them by the router's matrix, all in float32, and chooses experts. An
// expert whose logit is NaN comes last; of equal logits the lower expert comes first.
struct RouteLaunch {
  DType type;                // type of out
  const float* x;            // [rows, dim]
  const float* norm_weight;  // [dim]
  float norm_eps;
  const float* router;  // [count, dim]
  const float* bias;    // [count] or nullptr, added to the logits
  int64_t dim;
  void* out;          // [rows, dim], normed
  float* logits;      // [rows, count]; with Gating::Sigmoid their sigmoids
  unsigned* tickets;  // route_tickets(), zero before and after
  ExpertsSpec spec;
  const float* choice_bias;  // [count] or nullptr, as Experts::choice_bias
  Routing routing;           // chosen and weights are written
  bool dependent;            // LinearShape's
  bool one_order = false;    // sums have one order for any number of rows
  // [dim] or nullptr: what the router reads is normed by these weights, `out` by norm_weight.
  const float* route_weight = nullptr;
};
void launch_route(const RouteLaunch& launch, Stream stream);

// Fills places, row_of and begins. A single row needs none of them: its places are its choices.
void launch_sort_choices(const Routing& routing, bool dependent, Stream stream);

// x[row] += scale * the sum of weight * y[place] over the row's choices, in their order; or x[row]
// becomes it.
struct CombineLaunch {
  const float* y;  // [places, dim]
  float* x;        // [rows, dim]
  int64_t dim;
  float scale;
  Routing routing;
  bool dependent;
  bool adds = true;
  const float* expert_scale = nullptr;  // [count] or nullptr, factors of the weights
};
void launch_combine(const CombineLaunch& launch, Stream stream);

// The order of rows in memory: plain rows, or placed_rows.h's. PlacedHalves: f16 for weights of a
// block format.
enum class RowOrder : uint8_t { Plain, Placed, PlacedHalves };
// The order in which kernels that read placed rows want them.
inline RowOrder placed_order(DType format) {
  return block_elems(format) > 1 ? RowOrder::PlacedHalves : RowOrder::Placed;
}

// Copies rows of 16-bit activations to the layout of placed_rows.h, and lists the tiles of places.
struct PlaceRowsLaunch {
  const void* in;   // [rows, cols], or [places, cols]; of BF16 for PlacedHalves
  int64_t cols;     // a multiple of 32
  bool by_place;    // `in` has a row per place
  RowOrder order;   // of out
  float odd;        // PlacedHalves: the weights' kOddColumns
  void* out;        // PlacedLayout::bytes()
  Routing routing;  // tiles and tile_count are written
  bool dependent;
};
void launch_place_rows(const PlaceRowsLaunch& launch, Stream stream);

// out[place] = W[expert] · in, of all places.
struct ExpertsShape {
  DType type;    // type of in and out: F16, BF16 or F32
  DType format;  // the weight's format: `type`, or a block format
  int64_t outs, ins;
  bool by_place;       // `in` has a row per place; false: a row per row of the step
  int64_t out_stride;  // numbers from one row of out to the next
  Epilogue epilogue;   // Store, Floats or Gated; with `sums` AddTo or Floats
  Activation activation;
  bool activates = false;  // Store: stores activation(result)
  // Placed: gated rows are stored as in PlacedLayout. Only experts_many_sm90 does so.
  RowOrder out_order = RowOrder::Plain;
  // by_place, one row: the kernel also adds up the row's experts. out = scale * the sum of weight *
  // result, in the order of the choices; AddTo adds that to out, the residual stream.
  bool sums = false;
  float scale = 1;
  // One row: the sum has one more expert, which every row has (ExpertsLaunch::shared). Only
  // gemv_q_experts_sm90 has it, where gate and up route the row.
  bool with_shared = false;
  bool dependent;  // LinearShape's
  // The choice of experts was complete before the kernel ahead let this one start; for kernels
  // that let the next one start after the choice (ExpertsKernel::after_choice).
  bool chosen_early;
};
struct ExpertsLaunch : ExpertsShape {
  const void* weight;  // the first expert's [outs, ins]; Gated: rows alternate gate, up
  int64_t stride;      // bytes to the next expert's matrix, a multiple of 16
  // For experts_row and experts_few: the slots of a cache, `stride` bytes apart, and the slot of
  // each chosen expert, or -1: it lies at `weight`. nullptr: there is no cache.
  const void* cached;
  const int32_t* slots;
  const float* bias;  // [count, outs] or nullptr, in the order of the weight's rows
  const void* in;     // [rows, ins], or [places, ins]; for experts_many_sm90 a PlacedLayout
  // Store: [places, outs]; Floats: float; Gated: [places, outs / 2]. May be columns of a wider
  // matrix. With `sums`: float [outs]. The shared expert has the place after those of the choices.
  void* out;
  Routing routing;
  // Kernels for one row, experts_few and experts_many_sm90 have a block on each.
  int multiprocessors;
  float* results;  // experts_row that sums: [places, outs], scratch
  // This launch's own integers, zero before and after: experts_row that sums has
  // row_sum_tickets(outs) of them, gemv_q_experts_sm90 one.
  unsigned* tickets;
  // For gemv_q_experts_sm90. signal, wait: as in GemvQPart. route: not null if the product of gate
  // and up also chooses the experts. It then reads route->x and does what launch_route() would,
  // except for route->out. router_logits: RouterPart::logits, for gate and up with `route`, and for
  // the product of down that follows.
  unsigned *signal, *wait;
  const RouteLaunch* route;
  uint32_t* router_logits;
  // The matrix of an expert that every row has, laid out like another expert's, and the weights of
  // its gate, as RouterPart::shared_gate. routing.weights then has room for one weight more.
  const void* shared;
  const float* shared_gate;
};
template <KernelId>
void launch_experts(const ExpertsLaunch& launch, Stream stream);

// supports_*() need no GPU; cuda/plan/kernel_table.h says which code a kernel needs.

// For few rows of each expert: loads weights straight into registers, 8 places at a time.
bool supports_experts_few(const ExpertsShape& shape, const RoutingShape& routing);
void launch_experts_few(const ExpertsLaunch& launch, Stream stream);

// For one row, with `used` up to 32: streams weights through registers, several parts ahead.
constexpr int64_t row_sum_tickets(int64_t outs) { return (outs + 15) / 16; }
bool supports_experts_row(const ExpertsShape& shape, const RoutingShape& routing);
void launch_experts_row(const ExpertsLaunch& launch, Stream stream);

// For one row and block formats: the kernel of products of one row, whose matrix is put together
// from the chosen experts' (ChosenShape). By place, it always sums.
bool supports_gemv_q_experts_sm90(const ExpertsShape& shape, const RoutingShape& routing);
void launch_gemv_q_experts_sm90(const ExpertsLaunch& launch, Stream stream);
// True if the kernel can route the row (ExpertsLaunch::route).
bool gemv_q_experts_routes(const ExpertsShape& gate, const RoutingShape& routing,
                           int multiprocessors);

// For many rows of each expert: weights are read once for 64 places.
bool supports_experts_many(const ExpertsShape& shape, const RoutingShape& routing);
void launch_experts_many(const ExpertsLaunch& launch, Stream stream);

// Like launch_experts_many(), for up to 160 places, with warpgroup products. `in` has rows in the
// order of places, and their tiles are listed (PlaceRowsLaunch). Weight rows are whole groups
// of 16.
bool supports_experts_many_sm90(const ExpertsShape& shape, const RoutingShape& routing);
void launch_experts_many_sm90(const ExpertsLaunch& launch, Stream stream);
void launch_experts_many_q_sm90(const ExpertsLaunch& launch, Stream stream);  // block formats

// Any type, any format, any size, any GPU; the reference. It does not sum.
bool supports_experts_plain(const ExpertsShape& shape, const RoutingShape& routing);
void launch_experts_plain(const ExpertsLaunch& launch, Stream stream);

}  // namespace skald::cuda
