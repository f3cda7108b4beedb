// Which products and prepared rows gemm_q_sm90 supports.
#include <cmath>

#include "cuda/kernels/gemm_q/gemm_q.h"
#include "cuda/kernels/tiles/odd_columns.h"
#include "cuda/kernels/tiles/pairs.h"

namespace skald::cuda {

bool supports_gemm_q_sm90(const LinearShape& a) {
  if (block_elems(a.format) == 1 || a.rows > kGemmQMostRows || a.ins > kGemmQMostIns) {
    return false;
  }
  if (a.type != DType::BF16 && a.type != DType::F16) return false;
  return a.epilogue != Epilogue::Gated || a.outs % 2 == 0;
}

bool supports_gemm_q_pair_sm90(const LinearShape& a, const LinearShape& b) {
  const auto alone = [](const LinearShape& shape) {
    return supports_gemm_q_sm90(shape) && shape.epilogue == Epilogue::Store;
  };
  return alone(a) && alone(b) && a.rows <= kGemmQPairRows &&
         gemm_q_shares_activations(a.format, b.format) &&
         (tiles::dispatch_pair(a.format, b.format, [](auto) {}) ||
          tiles::dispatch_pair(b.format, a.format, [](auto) {}));
}

bool gemm_q_shares_activations(DType format, DType other) {
  return odd_columns(format) == odd_columns(other);
}

bool gemm_q_takes_prepared(const LinearShape& a, float bound) {
  constexpr float kLeast = 0x1p-80f, kMost = 0x1p80f;  // keep the power of two a float
  return a.ins % 256 == 0 && bound > kLeast && bound < kMost;
}

PreparedRows gemm_q_prepared_rows(const LinearShape& a, float bound, void* workspace) {
  return {static_cast<char*>(workspace), PreparedLayout(a.rows, a.ins), gemm_q_tile_rows(a.rows),
          std::ldexp(1.0f, 14 - std::ilogb(bound)), odd_columns(a.format)};
}

}  // namespace skald::cuda
