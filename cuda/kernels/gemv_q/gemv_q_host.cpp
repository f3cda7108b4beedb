// Which products gemv_q_sm90 supports.
#include "cuda/kernels/gemv_q/gemv_q_layout.h"
#include "cuda/kernels/tiles/pairs.h"

namespace skald::cuda {

bool supports_gemv_q_sm90(const LinearShape& a) {
  if (a.rows != 1 || a.type != DType::BF16) return false;
  if (a.epilogue == Epilogue::Gated && a.outs % 2 != 0) return false;
  bool fits = false;
  tiles::dispatch(a.format, [&](auto f) { fits = layout_for<decltype(f)>(a, 1).enough; });
  return fits;
}

bool takes_half_multiprocessor(const LinearShape& a) {
  bool half = false;
  tiles::dispatch(a.format, [&](auto f) { half = layout_for<decltype(f)>(a, 1).half; });
  return half;
}

bool has_gemv_q_pair_sm90(DType a, DType b) {
  return tiles::dispatch_pair(a, b, [](auto) {}) || tiles::dispatch_pair(b, a, [](auto) {});
}

bool supports_gemv_q_pair_sm90(const LinearShape& a, const LinearShape& b) {
  return has_gemv_q_pair_sm90(a.format, b.format) && supports_gemv_q_sm90(a) &&
         supports_gemv_q_sm90(b);
}

}  // namespace skald::cuda
