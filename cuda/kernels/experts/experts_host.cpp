// Which products of experts each kernel supports.
#include "cuda/kernels/experts/experts_layout.h"
#include "cuda/kernels/experts/experts_one_row.h"

namespace skald::cuda {
namespace {

// True if the types are 16-bit or a block format, and rows consist of whole units.
bool suits_parts(const ExpertsShape& a) {
  const bool block = block_elems(a.format) > 1;
  const bool types = block ? a.type == DType::BF16
                           : a.format == a.type && (a.type == DType::F16 || a.type == DType::BF16);
  return types && !a.with_shared && a.ins % kUnitCols == 0 &&
         (a.epilogue != Epilogue::Gated || a.outs % 2 == 0);
}

}  // namespace

bool supports_experts_few(const ExpertsShape& a, const RoutingShape& routing) {
  return suits_parts(a) && !a.sums && a.ins <= kMostFewCols &&
         routing.choices() <= kMostFewChoices && expert_tiles(routing, kFewPlaces) <= kMostFewTiles;
}

bool supports_experts_row(const ExpertsShape& a, const RoutingShape& routing) {
  return suits_parts(a) && routing.rows == 1 && routing.used <= kMostRowUsed &&
         (!a.sums || a.epilogue == Epilogue::AddTo) &&
         RowShared(a, routing).bytes(routing.used) <= kMostRowBytes;
}

bool supports_gemv_q_experts_sm90(const ExpertsShape& a, const RoutingShape& routing) {
  // Activations are fetched 8 at a time, and the weight rows of an expert are whole groups.
  return routing.rows == 1 && routing.used + (a.with_shared ? 1 : 0) <= kMostChosen &&
         block_elems(a.format) > 1 && a.activation != Activation::Sigmoid && a.by_place == a.sums &&
         a.ins % 8 == 0 && (a.sums || a.outs % tiles::kRows == 0) &&
         supports_gemv_q_sm90(one_row_product(a, routing));
}

bool gemv_q_experts_routes(const ExpertsShape& gate, const RoutingShape& routing,
                           int multiprocessors) {
  const int logits =
      routing.count + (gate.with_shared ? 1 : 0);  // the shared expert may have a gate
  return routing.count <= kMostRouted && logits <= kMostRoutedByBlock * multiprocessors &&
         gate.ins % 4 == 0 && takes_half_multiprocessor(one_row_product(gate, routing));
}

bool supports_experts_many(const ExpertsShape& a, const RoutingShape&) {
  return suits_parts(a) && !a.sums;
}

bool supports_experts_many_sm90(const ExpertsShape& a, const RoutingShape&) {
  return suits_parts(a) && !a.sums && a.outs % tiles::kRows == 0 && a.out_stride % 8 == 0;
}

bool supports_experts_plain(const ExpertsShape& a, const RoutingShape&) {
  return !a.sums && !a.with_shared;
}

}  // namespace skald::cuda
