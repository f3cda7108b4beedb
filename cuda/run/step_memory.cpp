#include "cuda/run/step_memory.h"

#include "cuda/gpu/check.h"

namespace skald::cuda {
namespace {

constexpr const char *kActivations = "activations", *kAttentionRows = "attention",
                     *kChoices = "experts' choices";

// Sets all of RouterPart::logits to kNotSent.
cudaError_t clear_logits(const DeviceMemory& logits, Stream stream) {
  static_assert(kNotSent == ~0u);
  if (logits.bytes() == 0) return cudaSuccess;
  return cudaMemsetAsync(logits.as<void>(), 0xff, static_cast<size_t>(logits.bytes()), stream);
}

}  // namespace

StepMemory::StepMemory(const Sizes& sizes, Stream stream)
    : products{DeviceMemory(sizes.expanded, "16-bit rows of weights"),
               DeviceMemory(sizes.product, kActivations), DeviceMemory(sizes.carried, kActivations),
               DeviceMemory(sizes.pairs, kActivations),
               DeviceMemory(sizes.product_tickets, "the step's table")},
      attention{DeviceMemory(sizes.attention, kAttentionRows),
                DeviceMemory(sizes.tickets, kAttentionRows),
                DeviceMemory(sizes.plain_cache(), "the KV cache of a layer")},
      experts{DeviceMemory(sizes.experts.logits, kChoices),
              DeviceMemory(sizes.experts.router_logits, kChoices),
              DeviceMemory(sizes.experts.choices, kChoices),
              DeviceMemory(sizes.experts.choices, kChoices),
              DeviceMemory(sizes.experts.choices, kChoices),
              DeviceMemory(sizes.experts.choices, kChoices),
              DeviceMemory(sizes.experts.begins, kChoices),
              DeviceMemory(sizes.experts.tiles, kChoices),
              DeviceMemory(sizes.experts.tickets, kChoices),
              DeviceMemory(sizes.experts.slots, kChoices),
              DeviceMemory(sizes.experts.moves, kChoices),
              DeviceMemory(sizes.experts.gated, kActivations),
              DeviceMemory(sizes.experts.pairs, kActivations),
              DeviceMemory(sizes.experts.sums, kActivations)},
      delta_factors(sizes.delta_factors, kActivations),
      logits_part(sizes.logits_part, "logits") {
  // A tile may have more rows than the step. Products multiply those rows as well, so the workspace
  // and the carried rows must not hold NaN.
  for (const DeviceMemory* memory : {&products.tickets, &products.carried, &products.workspace,
                                     &attention.tickets, &experts.tickets}) {
    if (memory->bytes() == 0) continue;
    SKALD_CUDA(
        cudaMemsetAsync(memory->as<void>(), 0, static_cast<size_t>(memory->bytes()), stream));
  }
  SKALD_CUDA(clear_logits(experts.router_logits, stream));
}

// The caller reports the error that broke the step. An error of this call would hide that one.
void StepMemory::clear_sent(Stream stream) { (void)clear_logits(experts.router_logits, stream); }

unsigned* StepMemory::Products::signal() const {
  return tickets.as<unsigned>() + tickets.bytes() / static_cast<int64_t>(sizeof(unsigned)) - 1;
}

}  // namespace skald::cuda
