// Chooses where the matrices of a model lie if the GPU's memory is too small for all of them.
// Weights that stay lie in the GPU's memory. All others lie in page-locked memory of the host:
//   - Streamed: each step copies the matrices of an op to a slot in the GPU's memory, while the ops
//     before it compute. The slots of ops that follow one another lie side by side; later ops use
//     the same memory again.
//   - InPlace: kernels read what they need over the link: the few rows of an embedding, or, with
//     HostMemoryKind::Mapped, all matrices that leave the GPU's memory.
// Kernels read no ordinary memory, so with HostMemoryKind::Pageable embeddings stay, and experts
// are always copied. Of a layer's experts some may also lie in the GPU's memory, in a cache of
// slots: steps of few rows find the experts there that were used last
// (cuda/kernels/experts/experts_cache.h). Pure functions of sizes. A placement changes speed and,
// as long as the GPU alone computes, no digit of a result.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "cuda/plan/fused_program.h"
#include "engine/step/backend.h"

namespace skald::cuda {

// Bytes of an op's weights on a GPU. matrices: what may leave the GPU's memory. others: norms,
// biases and what else is small.
struct OpBytes {
  int64_t matrices = 0, others = 0;
};
std::vector<OpBytes> op_bytes(const FusedProgram& fused);  // one for each op

// True if the op's matrices may leave the GPU's memory. The head is no part of prompts' steps, and
// weights of ops that run several times in a step would be copied each time.
bool can_leave(const FusedProgram& fused, size_t op, HostMemoryKind host);

// Reads by kernels reach a lower share of the link's speed than copies. So a layer's experts are
// copied if the rows are expected to choose more than this share of them.
inline constexpr double kMostReadInPlace = 0.75;

enum class Home : uint8_t { Device, Streamed, InPlace };

// The user's choice for each op (cuda/plan/place_rules.h); or empty: all are placed automatically.
using PlaceRules = std::vector<std::optional<WeightPlace>>;

struct OpPlace {
  Home home = Home::Device;
  int64_t bytes = 0;      // of the matrices
  int64_t slot = 0;       // Streamed: where they begin in the slots' memory
  int64_t row_bytes = 0;  // the bytes that one row reads: of experts only the chosen ones
  int cached = 0;         // Streamed experts: slots of their cache
  int64_t cache = 0;      // where the slots begin in the caches' memory
  std::optional<WeightPlace> rule = {};
};

struct Placement {
  std::vector<OpPlace> ops;      // one for each fused op
  std::vector<size_t> streamed;  // the streamed ops in their order
  std::vector<size_t> mapped;    // products and experts that are read in place, in their order
  int64_t device = 0;            // bytes of weights that stay in the GPU's memory
  int64_t slots = 0;             // bytes of the memory that the slots share
  int64_t caches = 0;            // bytes of the experts' caches: all slots, then all states
  int64_t host = 0;              // bytes of weights in the host's memory
  int64_t streamed_bytes = 0;    // the part of `host` that is copied, or mapped
  int64_t row_bytes = 0;  // the part of streamed_bytes that one row reads, with random experts

  int64_t host_by_rule = 0, device_by_rule = 0;  // MemoryPlan
  HostMemoryKind kind = HostMemoryKind::Auto;

  bool streams() const { return !streamed.empty(); }
  int64_t on_device() const { return device + slots + caches; }
  // The products and experts in the host's memory, with which the CPU may compute.
  const std::vector<size_t>& hosted() const {
    return kind == HostMemoryKind::Mapped ? mapped : streamed;
  }
  Home home(size_t op) const { return ops.empty() ? Home::Device : ops[op].home; }
};

struct PlaceRequest {
  std::optional<int64_t> room;  // bytes for weights and slots; empty: room for all
  // The share of the streamable bytes that stays in the GPU's memory, whatever the room; empty: as
  // much as fits.
  std::optional<double> share;
  // Experts in the GPU's memory are a cache of those on the host, which then has all. Otherwise the
  // host has the others alone, as it has where kernels do not read it (Pageable) or read all of it
  // (Mapped).
  bool caches = true;
  PlaceRules rules = {};
  HostMemoryKind host = HostMemoryKind::Auto;
};
// If the room is too small for any placement, the result is the one that needs the least.
Placement place_weights(const FusedProgram& fused, const PlaceRequest& request);

// Gives each streamed op its slot: the lowest one that overlaps neither of the two ops before it.
// So two copies can be ahead of the op that computes, which makes up for ops of different lengths:
// with one copy ahead, a prompt's step took an eighth longer than its copies.
void place_slots(Placement& placement);

// When a step may begin the copies of some streamed ops, which it runs in this order. Steps follow
// one another, so the first copies of a step begin in the step before it.
struct CopyTime {
  size_t op;     // the op whose matrices are copied
  size_t after;  // the op that must have computed before, because it reads the same slot
  bool ahead;    // `after` belongs to the step before
};
// Returns the copies in the order in which they begin.
std::vector<CopyTime> copy_times(const Placement& placement, const std::vector<size_t>& ops);

}  // namespace skald::cuda
