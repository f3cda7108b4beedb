// Which products gemm_cublas supports.
#include "cuda/kernels/linear.h"

namespace skald::cuda {
namespace {

// cuBLAS wants rows that start at multiples of 16 bytes.
bool suits_cublas(const LinearShape& a) {
  return a.ins % 8 == 0 && a.outs % 8 == 0 && a.out_stride % 8 == 0;
}

}  // namespace

bool supports_gemm_cublas(const LinearShape& a) { return a.format == a.type && suits_cublas(a); }

bool supports_gemm_expanded(const LinearShape& a) { return a.format != a.type && suits_cublas(a); }

}  // namespace skald::cuda
