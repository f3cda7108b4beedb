#include "cuda/linear_steps.h"

#include "engine/error.h"

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

LinearLaunch linear_launch(const FusedProgram& fused, const FusedLinear& op, int rows,
                           const float* norm, const float* bias) {
  LinearLaunch launch = {};
  launch.type = launch.format = fused.type;
  launch.outs = fused.outs(op);
  launch.ins = fused.ins(op);
  launch.rows = rows;
  launch.norm_weight = op.norm ? norm : nullptr;
  launch.norm_eps = op.norm ? op.norm->eps : 0;
  launch.bias = fused.has_bias(op) ? bias : nullptr;
  launch.epilogue = op.epilogue;
  launch.activation = op.activation;
  return launch;
}

std::string steps_text(const LinearSteps& steps) {
  return concat(steps.norm_before ? "rms_norm + " : "", kernel_name(steps.kernel),
                steps.gate_after ? " + gate" : "", steps.bias_after ? " + add_bias" : "");
}

}  // namespace skald::cuda
