#include "cuda/plan/select.h"

namespace skald::cuda {
namespace {

// Rows up to which reading the weights once a row or two beats setting up a matrix product.
constexpr int kFewRows = 4;
// Rows up to which a quantized matrix is multiplied as it is, where there is a 16-bit copy of it
// and where one would have to be made.
constexpr int kMostRowsBesideCopy = 64, kMostRowsElse = 256;

// cuBLAS wants rows that start at multiples of 16 bytes.
bool suits_cublas(const LinearLaunch& a) {
  return a.ins % 8 == 0 && a.outs % 8 == 0 && a.out_stride % 8 == 0;
}

struct Variant {
  LinearKernel kernel;
  std::string_view name;
  bool (*supports)(const LinearLaunch&, const Gpu&);
  bool pinned = false;  // for any number of rows, each of which gets the same whatever the number
};

constexpr Variant kVariants[] = {
    {LinearKernel::GemvSm90, "gemv_sm90",
     [](const LinearLaunch& a, const Gpu& gpu) {
       return supports_gemv_sm90(a, gpu.compute_capability);
     }},
    {LinearKernel::GemvQSm90, "gemv_q_sm90",
     [](const LinearLaunch& a, const Gpu& gpu) {
       return supports_gemv_q_sm90(a, gpu.compute_capability);
     }},
    {LinearKernel::GemmQSm90, "gemm_q_sm90",
     [](const LinearLaunch& a, const Gpu& gpu) {
       return a.rows <= (a.copy ? kMostRowsBesideCopy : kMostRowsElse) &&
              supports_gemm_q_sm90(a, gpu.compute_capability);
     }},
    // The quantized matrix in 16 bits, a copy or made for the step, and gemm_cublas.
    {LinearKernel::GemmExpanded, "expand_q + gemm_cublas",
     [](const LinearLaunch& a, const Gpu&) {
       return a.format != a.type && a.rows > kFewRows && suits_cublas(a);
     },
     true},
    {LinearKernel::GemmCublas, "gemm_cublas",
     [](const LinearLaunch& a, const Gpu&) {
       return a.format == a.type && a.rows > kFewRows && suits_cublas(a);
     },
     true},
    {LinearKernel::GemvPlain, "gemv_plain", [](const LinearLaunch&, const Gpu&) { return true; },
     true},
};

}  // namespace

LinearKernel select_linear(const LinearLaunch& asked, const Gpu& gpu) {
  LinearLaunch launch = asked;
  if (launch.pinned) launch.rows = kPinnedRows;
  for (const Variant& variant : kVariants) {
    if (launch.pinned && !variant.pinned) continue;
    if (variant.supports(launch, gpu)) return variant.kernel;
  }
  return LinearKernel::GemvPlain;
}

std::string_view kernel_name(LinearKernel kernel) {
  for (const Variant& variant : kVariants) {
    if (variant.kernel == kernel) return variant.name;
  }
  return "?";
}

}  // namespace skald::cuda
