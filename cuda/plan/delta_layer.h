// Finds the ops of a gated delta net in a program, whatever layout its weights have.
#pragma once

#include <optional>
#include <vector>

#include "cuda/plan/fuse.h"

namespace skald::cuda {

struct DeltaLayer {
  ActId products_in;             // what all products read
  std::vector<WeightId> parts;   // the products, side by side in one row
  std::vector<WeightId> biases;  // one a part, or None
  size_t products_end;           // the first op after the products
  size_t last;                   // the last op of the layer
  FusedDelta net;                // without `in` and `index`
};
// The layer whose first product is the op at `first`; empty if the ops there are something else.
std::optional<DeltaLayer> find_delta_layer(const Program& program, size_t first);

}  // namespace skald::cuda
