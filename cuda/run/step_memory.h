// Device memory that the launches of a step need besides activations, the KV cache and weights.
// cuda/plan/sizes.h has the sizes.
#pragma once

#include "cuda/gpu/memory.h"
#include "cuda/gpu/stream.h"
#include "cuda/plan/sizes.h"

namespace skald::cuda {

struct StepMemory {
  // Fills two kinds of memory with zeros on the stream: tickets, and activations that kernels may
  // read before they are written.
  StepMemory(const Sizes& sizes, Stream stream);
  // Sets RouterPart::logits to kNotSent. Call it after a step that failed, because its router may
  // have written logits there.
  void clear_sent(Stream stream);

  struct Products {
    DeviceMemory expanded;   // some rows of a quantized matrix, as 16-bit floats
    DeviceMemory workspace;  // GemmQPart::workspace
    DeviceMemory carried;    // GemmQPart::carried
    DeviceMemory pairs;      // gate and up before the activation
    DeviceMemory tickets;    // one per piece of a product, then one for signals
    unsigned* signal() const;
  } products;

  struct Attention {
    DeviceMemory workspace, tickets;
    DeviceMemory plain;  // the plain cache of one layer, beside a cache of codes
  } attention;

  struct Experts {
    DeviceMemory logits, router_logits, chosen, weights, places, row_of, begins, tiles, tickets,
        slots, moves;
    DeviceMemory gated, pairs, sums;  // [places, ...]
  } experts;

  DeviceMemory delta_factors;  // DeltaLaunch::factors
  DeviceMemory logits_part;    // [rows, own rows of the head], in a shard
};

}  // namespace skald::cuda
