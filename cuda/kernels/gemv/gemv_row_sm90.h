// gemv_sm90's kernel for one row. cuda/kernels/linear.h has the launcher for any number of rows.
#pragma once

#include "cuda/kernels/linear.h"

namespace skald::cuda {

void launch_gemv_row_sm90(const LinearLaunch& launch, int multiprocessors, Stream stream);

}  // namespace skald::cuda
