#include "cuda/plan/linear_steps.h"

#include "engine/base/error.h"

namespace skald::cuda {

LinearSteps linear_steps(const LinearLaunch& launch, LinearKernel kernel) {
  LinearSteps steps{kernel};
  if (steps.kernel == LinearKernel::GemvSm90 || steps.kernel == LinearKernel::GemvQSm90 ||
      steps.kernel == LinearKernel::GemmQSm90) {
    return steps;
  }
  steps.norm_before = launch.norm_weight != nullptr;
  if (steps.kernel == LinearKernel::GemvPlain) return steps;
  steps.gate_after = launch.epilogue == Epilogue::Gated;
  steps.bias_after = launch.bias != nullptr && !steps.gate_after;
  return steps;
}

LinearLaunch linear_launch(const FusedProgram& fused, const FusedLinear& op, const Piece& piece,
                           int rows, const LinearVectors& vectors) {
  const bool apart = op.epilogue == Epilogue::Gated && !fused.alternates(op);
  LinearLaunch launch = {};
  launch.type = fused.type;
  launch.format = piece.format;
  launch.outs = piece.outs;
  launch.ins = fused.ins(op);
  launch.rows = rows;
  launch.norm_weight = op.norms_inside() ? vectors.norm : nullptr;
  launch.norm_eps = op.norms_inside() ? op.norm->eps : 0;
  const bool has_bias = fused.has_bias(op) && !apart;
  launch.bias = has_bias ? vectors.bias + piece.first_out : nullptr;
  launch.epilogue = apart ? Epilogue::Store : op.post_norm ? Epilogue::Floats : op.epilogue;
  if (launch.epilogue == Epilogue::AddTo) launch.scale = op.scale;
  launch.out_stride = launch.epilogue == Epilogue::Gated ? fused.outs(op) / 2 : fused.outs(op);
  launch.activation = op.activation;
  return launch;
}

std::string steps_text(const LinearSteps& steps, bool copies) {
  const bool by_copy = copies && steps.kernel == LinearKernel::GemmExpanded;
  const LinearKernel kernel = by_copy ? LinearKernel::GemmCublas : steps.kernel;
  return concat(steps.norm_before ? "rms_norm + " : "", kernel_name(kernel),
                by_copy ? " (copy)" : "", steps.gate_after ? " + gate" : "",
                steps.bias_after ? " + add_bias" : "");
}

}  // namespace skald::cuda
