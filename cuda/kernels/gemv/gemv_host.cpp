// Which products gemv_sm90 supports.
#include "cuda/kernels/gemv/gemv_layout.h"

namespace skald::cuda {

bool supports_gemv_sm90(const LinearShape& a) {
  const bool half = a.type == DType::F16 || a.type == DType::BF16;
  if (!half || a.format != a.type || a.rows > gemv_rows::kMostRows) return false;
  if (a.ins % kStep != 0 || a.ins >= gemv_rows::kMostBlockBytes) return false;
  if (a.epilogue == Epilogue::Gated && a.outs % 2 != 0) return false;
  if (a.rows == 1) return gemv_row::layout_for(a, false, 1).slots >= gemv_row::kFewestSlots;
  return gemv_rows::layout_for(a, 1).slots >= gemv_rows::kFewestSlots;
}

}  // namespace skald::cuda
