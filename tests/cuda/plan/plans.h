// What the tests of plans share: a program's fused ops, its sizes and its kernels, as a GPU would
// get them. Needs no GPU.
#pragma once

#include <string>
#include <vector>

#include "cuda/cuda.h"
#include "cuda/plan/fused_program.h"
#include "cuda/plan/sizes.h"
#include "engine/base/error.h"
#include "engine/base/overloaded.h"

namespace skald::test {

template <class Op>
std::vector<Op> ops_of(const cuda::FusedProgram& fused) {
  std::vector<Op> ops;
  for (const cuda::FusedOp& op : fused.ops) {
    if (const auto* o = std::get_if<Op>(&op.op)) ops.push_back(*o);
  }
  return ops;
}

inline cuda::DeviceInfo hopper() {
  cuda::DeviceInfo gpu;
  gpu.compute_capability = 90;
  gpu.multiprocessors = 132;
  gpu.total_bytes = gpu.free_bytes = int64_t{140} << 30;
  return gpu;
}

// Each op that CUDA makes of a program, and whether a norm is a part of it.
inline std::string fused_text(Program program) {
  std::string text;
  for (const cuda::FusedOp& op : cuda::fuse_program(std::move(program)).ops) {
    text += std::visit(
        Overloaded{[](const Embed&) { return "embed"; }, [](const Norm&) { return " norm"; },
                   [](const cuda::FusedLinear& o) { return o.norm ? " norm+linear" : " linear"; },
                   [](const cuda::FusedAttention&) { return " attention"; },
                   [](const cuda::FusedExperts&) { return " experts"; },
                   [](const cuda::FusedDelta&) { return " delta"; },
                   [](const cuda::FusedSpace&) { return " space"; },
                   [](const cuda::FusedShortConv&) { return " short_conv"; },
                   [](const RowGate&) { return " row_gate"; },
                   [](const GatedAct&) { return " gated_act"; },
                   [](const cuda::GatedPart&) { return " gated_part"; },
                   [](const cuda::SumOfNorms&) { return " sum_of_norms"; },
                   [](const Given&) { return " given"; },
                   [](const cuda::FusedPart&) { return " part"; },
                   [](const cuda::BufferNorm&) { return " buffer_norm"; },
                   [](const cuda::HeadProducts&) { return " head_products"; },
                   [](const cuda::FusedExchange& o) {
                     return o.in_place() ? " sum" : o.norm ? " exchange+norm" : " exchange";
                   }},
        op.op);
  }
  return text;
}

inline cuda::Sizes sizes_of(const Model& model) {
  cuda::SizeOptions options;
  options.rows = 64;
  options.context = 512;
  options.multiprocessors = 132;
  return cuda::Sizes(cuda::fuse_program(model.program()), options);
}

// The kernels of a step of `rows` rows, a line for each use.
inline std::string kernels(const Model& model, int rows) {
  std::string text;
  RunOptions options;
  options.rows = 512;
  const std::vector<int> steps = {rows};
  for (const cuda::KernelUse& use : cuda::list_kernels(model, options, hopper(), steps)) {
    text += concat(use.weights, " ", use.shape, ": ", use.kernels.at(0), "\n");
  }
  return text;
}

}  // namespace skald::test
