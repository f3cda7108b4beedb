#include "cuda/select.h"

namespace skald::cuda {
namespace {

// Rows up to which reading the weights once a row or two beats setting up a matrix product.
constexpr int kFewRows = 4;

struct Variant {
  LinearKernel kernel;
  std::string_view name;
  bool (*supports)(const LinearLaunch&, const Gpu&);
};

constexpr Variant kVariants[] = {
    {LinearKernel::GemvSm90, "gemv_sm90",
     [](const LinearLaunch& a, const Gpu& gpu) {
       return supports_gemv_sm90(a, gpu.compute_capability);
     }},
    // cuBLAS wants rows that start at multiples of 16 bytes.
    {LinearKernel::GemmCublas, "gemm_cublas",
     [](const LinearLaunch& a, const Gpu&) {
       return a.rows > kFewRows && a.ins % 8 == 0 && a.outs % 8 == 0;
     }},
    {LinearKernel::GemvPlain, "gemv_plain", [](const LinearLaunch&, const Gpu&) { return true; }},
};

}  // namespace

LinearKernel select_linear(const LinearLaunch& asked, const Gpu& gpu) {
  LinearLaunch launch = asked;
  if (launch.pinned) launch.rows = kPinnedRows;
  for (const Variant& variant : kVariants) {
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
