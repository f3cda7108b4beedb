// Which kernels a product takes: one that does all of it, or one for the product alone with others
// before and after it.
#pragma once

#include <string>

#include "cuda/plan/fused_program.h"
#include "cuda/plan/select.h"

namespace skald::cuda {

struct LinearSteps {
  LinearKernel kernel;
  bool norm_before = false;
  bool gate_after = false;  // with the bias; the product goes to a buffer of pairs
  bool bias_after = false;
};

// A fused op's, on the GPU.
struct LinearVectors {
  const float *norm, *bias;
};

LinearSteps linear_steps(const LinearLaunch& launch, LinearKernel kernel);
inline LinearSteps linear_steps(const LinearLaunch& launch, const Gpu& gpu) {
  return linear_steps(launch, select_linear(launch, gpu));
}

// The launch for a piece of a fused op but for where matrices and buffers lie. `norm` and `bias`:
// the op's vectors on the GPU; where it has none they are not used. Gate and up that are two pieces
// are stored side by side, to be gated afterwards.
LinearLaunch linear_launch(const FusedProgram& fused, const FusedLinear& op, const Piece& piece,
                           int rows, const LinearVectors& vectors);

// "rms_norm + gemm_cublas + gate"; `copies`: there is a 16-bit copy of quantized matrices.
std::string steps_text(const LinearSteps& steps, bool copies);

}  // namespace skald::cuda
