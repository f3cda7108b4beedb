// Fused ops that the CPU can compute in place of the GPU, where their weights lie in the host's
// memory: products and experts, with the norms, activations and sums that belong to them.
#pragma once

#include <optional>
#include <vector>

#include "cuda/plan/fused_program.h"
#include "cuda/plan/place.h"

namespace skald::cuda {

// A buffer has the same id on the CPU and on the GPU. On the GPU it has the activations' type or
// float32 (FusedProgram::row_bytes()), on the CPU float32.
struct HostOp {
  size_t first = 0, end = 0;  // range of the program's ops; `end` is exclusive
  std::vector<ActId> in;      // what the ops read
  // What the ops write. parts: buffers of the CPU that lie side by side in the GPU's buffer.
  struct Out {
    ActId device;
    std::vector<ActId> parts;
  };
  std::vector<Out> out;
};

// Returns nothing if the CPU cannot compute this op.
std::optional<HostOp> host_op(const FusedProgram& fused, size_t op);

// How the ops of steps with few rows are shared between the CPU and the GPU.
struct HostShare {
  std::vector<bool> able;    // one for each op: the CPU can compute it and has its weights
  double cpu = 0, link = 0;  // bytes of weights per second, both at the same time
};
// The ops (Placement::hosted()) that the CPU computes in steps of few rows, in their order, and the
// bytes of their matrices. The CPU and the link share the products so that both need the same time:
// the CPU reads its share while the link copies the others. Mapped products are not copied: the CPU
// gets all of them if it reads faster than a kernel would over the link. The ratio of both speeds
// is rounded, so that two runs of a command, which measure a little differently, make the same
// choice. A rule of the user (OpPlace::rule) comes first.
struct HostPart {
  std::vector<size_t> ops;
  int64_t bytes = 0;
  // Layers of experts that CPU and GPU share. The GPU gets the share `copied` of the chosen experts
  // that are not in its cache over the link, while the CPU computes the others.
  std::vector<size_t> shared;
  double copied = 1;
};
HostPart host_part(const FusedProgram& fused, const Placement& placement, const HostShare& share);

// With more rows than this, the CPU computes for longer than it reads weights: 8 rows took longer
// with the CPU than without.
inline constexpr int kMostHostRows = 4;
// The limit for matrices of experts, which the CPU shares with the GPU. It is higher because each
// row reads other experts, so more rows also read more weights.
inline constexpr int kMostSharedRows = 16;

}  // namespace skald::cuda
