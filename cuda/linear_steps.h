// Which kernels a product takes: one that does all of it, or one for the product alone with others
// before and after it.
#pragma once

#include <string>

#include "cuda/fused_program.h"
#include "cuda/select.h"

namespace skald::cuda {

struct LinearSteps {
  LinearKernel kernel;
  bool norm_before = false;
  bool gate_after = false;  // with the bias; the product goes to a buffer of pairs
  bool bias_after = false;
  // Where the fused op asks for it: a copy of the residual stream, a norm of the product before it
  // is added, a scale or a cap of logits.
  bool copy_before = false, post_norm_after = false, cap_after = false;
};

LinearSteps linear_steps(const LinearLaunch& launch, LinearKernel kernel);
inline LinearSteps linear_steps(const LinearLaunch& launch, const Gpu& gpu) {
  return linear_steps(launch, select_linear(launch, gpu));
}

// The steps of a fused op.
LinearSteps linear_steps(const FusedLinear& op, const LinearLaunch& launch, const Gpu& gpu);

// A fused op's launch but for where its matrices lie. `norm` and `bias`: its vectors on the GPU;
// where it has none they are not used.
LinearLaunch linear_launch(const FusedProgram& fused, const FusedLinear& op, int rows,
                           const float* norm, const float* bias);

std::string steps_text(const LinearSteps& steps);  // "rms_norm + gemm_cublas + gate"

}  // namespace skald::cuda
