// gemm_cublas: products of many rows by cuBLASLt, without norm, bias or gating: Store, AddTo,
// Floats and Logits only.
#pragma once

#include <cstdint>
#include <memory>

#include "cuda/gpu/stream.h"

namespace skald::cuda {

inline constexpr int64_t kCublasWorkspaceBytes = 64 << 20;  // GPU memory besides operands

struct LinearLaunch;

// Keeps cuBLASLt's plans by shape. An executor has one GemmCublas for its device.
class GemmCublas {
 public:
  GemmCublas();
  ~GemmCublas();
  void launch(const LinearLaunch& launch, Stream stream);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace skald::cuda
