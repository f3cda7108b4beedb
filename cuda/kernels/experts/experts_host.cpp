// Which products of experts each kernel supports.
#include "cuda/kernels/experts/experts_layout.h"

namespace skald::cuda {
namespace {

// True if the types are 16-bit or a block format, and rows consist of whole units.
bool suits_parts(const ExpertsShape& a) {
  const bool block = block_elems(a.format) > 1;
  const bool types = block ? a.type == DType::BF16
                           : a.format == a.type && (a.type == DType::F16 || a.type == DType::BF16);
  return types && a.ins % kUnitCols == 0 && (a.epilogue != Epilogue::Gated || a.outs % 2 == 0);
}

}  // namespace

bool supports_experts_few(const ExpertsShape& a, const RoutingShape& routing) {
  return suits_parts(a) && a.ins <= kMostFewCols && routing.choices() <= kMostFewChoices &&
         expert_tiles(routing, kFewPlaces) <= kMostFewTiles;
}

bool supports_experts_row(const ExpertsShape& a, const RoutingShape& routing) {
  return suits_parts(a) && routing.rows == 1 && routing.used <= kMostRowUsed &&
         RowShared(a, routing).bytes(routing.used) <= kMostRowBytes;
}

bool supports_experts_expanded(const ExpertsShape& a, const RoutingShape&) {
  return block_elems(a.format) > 1 && suits_parts(a);
}

bool supports_experts_many(const ExpertsShape& a, const RoutingShape&) { return suits_parts(a); }

}  // namespace skald::cuda
