// The shape of a product of routed experts: all launch parameters except buffers and rows.
#pragma once

#include "cuda/kernels/experts/experts.h"
#include "cuda/plan/fused_program.h"

namespace skald::cuda {

// If gate and up are two stacks, their results are stored side by side and gated later. Without a
// gate, the product of up activates.
inline ExpertsShape experts_shape(const FusedProgram& fused, const FusedExperts& op,
                                  const ExpertStack& stack) {
  const bool down = stack.parts.front() == op.down, pairs = stack.parts.size() > 1;
  const bool activates = !down && op.gate == WeightId::None;
  ExpertsShape shape = {};
  shape.type = fused.type;
  shape.format = stack.format;
  shape.outs = stack.outs;
  shape.ins = stack.ins;
  shape.by_place = down;
  shape.epilogue = down ? Epilogue::Floats : pairs ? Epilogue::Gated : Epilogue::Store;
  shape.out_stride = down || activates ? stack.outs : pairs ? stack.outs / 2 : 2 * stack.outs;
  shape.activates = activates;
  shape.activation = op.spec.activation;
  return shape;
}

}  // namespace skald::cuda
