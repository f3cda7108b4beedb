#include "cuda/linear_steps.h"

#include "engine/error.h"

namespace skald::cuda {

LinearSteps linear_steps(const LinearLaunch& launch, LinearKernel kernel) {
  LinearSteps steps{kernel};
  if (steps.kernel == LinearKernel::GemvSm90) return steps;
  steps.norm_before = launch.norm_weight != nullptr;
  if (steps.kernel == LinearKernel::GemvPlain) return steps;
  steps.gate_after = launch.epilogue == Epilogue::Gated;
  steps.bias_after = launch.bias != nullptr && !steps.gate_after;
  return steps;
}

LinearSteps linear_steps(const FusedLinear& op, const LinearLaunch& launch, const Gpu& gpu) {
  LinearSteps steps = linear_steps(launch, gpu);
  steps.copy_before = op.makes_copy;
  steps.post_norm_after = op.post_norm.has_value();
  steps.cap_after = op.epilogue == Epilogue::Logits && (op.scale != 1 || op.softcap != 0);
  return steps;
}

LinearLaunch linear_launch(const FusedProgram& fused, const FusedLinear& op, int rows,
                           const float* norm, const float* bias) {
  LinearLaunch launch = {};
  launch.type = fused.type;
  launch.outs = fused.outs(op);
  launch.ins = fused.ins(op);
  launch.rows = rows;
  launch.norm_weight = op.norm ? norm : nullptr;
  launch.norm_eps = op.norm ? op.norm->eps : 0;
  launch.bias = fused.has_bias(op) ? bias : nullptr;
  launch.epilogue = op.post_norm ? Epilogue::Floats : op.epilogue;
  if (launch.epilogue == Epilogue::AddTo) launch.scale = op.scale;
  launch.activation = op.activation;
  return launch;
}

std::string steps_text(const LinearSteps& steps) {
  return concat(steps.copy_before ? "to_type + " : "", steps.norm_before ? "rms_norm + " : "",
                kernel_name(steps.kernel), steps.gate_after ? " + gate" : "",
                steps.bias_after ? " + add_bias" : "", steps.post_norm_after ? " + post_norm" : "",
                steps.cap_after ? " + cap_logits" : "");
}

}  // namespace skald::cuda
