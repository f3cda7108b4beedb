// Device memory that only a step's launches need, in the sizes that cuda/plan/sizes.h has counted.
#pragma once

#include "cuda/gpu/memory.h"
#include "cuda/gpu/stream.h"
#include "cuda/plan/sizes.h"

namespace skald::cuda {

struct StepMemory {
  // Tickets, and activations that a kernel may multiply before they are written, become zeros on
  // the stream.
  StepMemory(const Sizes& sizes, Stream stream);

  struct Products {
    DeviceMemory expanded;   // rows of a quantized matrix in 16 bits
    DeviceMemory workspace;  // GemmQPart::workspace
    DeviceMemory carried;    // GemmQPart::carried
    DeviceMemory pairs;      // gate and up before the activation
    DeviceMemory tickets;    // one for each piece, then the one for signals
    unsigned* signal() const;
  } products;

  struct Attention {
    DeviceMemory workspace, tickets;
  } attention;

  struct Experts {
    DeviceMemory logits, chosen, weights, places, row_of, begins, tickets;
    DeviceMemory gated, pairs, sums;  // [places, ...]
  } experts;
};

}  // namespace skald::cuda
