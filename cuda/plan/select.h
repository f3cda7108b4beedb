// Which kernel a product gets: the first row of the table that supports it.
#pragma once

#include <string_view>

#include "cuda/kernels/linear.h"

namespace skald::cuda {

enum class LinearKernel { GemvSm90, GemvQSm90, GemmQSm90, GemmExpanded, GemmCublas, GemvPlain };

struct Gpu {
  int compute_capability = 0;
  int multiprocessors = 0;
};

LinearKernel select_linear(const LinearLaunch& launch, const Gpu& gpu);
std::string_view kernel_name(LinearKernel kernel);

}  // namespace skald::cuda
