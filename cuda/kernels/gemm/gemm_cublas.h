// What gemm_cublas takes of the GPU's memory beside its operands.
#pragma once

#include <cstdint>

namespace skald::cuda {

inline constexpr int64_t kCublasWorkspaceBytes = 64 << 20;

}  // namespace skald::cuda
