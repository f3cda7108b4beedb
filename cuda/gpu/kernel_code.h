// What code a kernel needs on a GPU, and whether this build has it there. No other file compares
// compute capabilities to choose a kernel.
#pragma once

#include <cstdint>

namespace skald::cuda {

// True if this build holds code for sm_90a. Without it the kernels named *_sm90 are empty, and must
// not be chosen even on a GPU that could run them.
#ifdef SKALD_HAS_SM90A
inline constexpr bool kHasSm90a = true;
#else
inline constexpr bool kHasSm90a = false;
#endif

enum class KernelCode : uint8_t {
  Any,    // every GPU that skald supports
  Sm80,   // mma.sync of 16-bit numbers and asynchronous copies: sm_80 and later
  Sm90a,  // wgmma, bulk copies, clusters, dependent launches: sm_90 alone
};

constexpr bool runs_on(KernelCode code, int compute_capability) {
  switch (code) {
    case KernelCode::Any:
      return true;
    case KernelCode::Sm80:
      return compute_capability >= 80;
    case KernelCode::Sm90a:
      return kHasSm90a && compute_capability == 90;
  }
  return false;
}

// The same for code that the driver has loaded (cudaFuncAttributes). That code may be older than
// the GPU, such as PTX of sm_75 on an sm_90.
constexpr bool is_loaded(KernelCode code, int ptx_version, int binary_version) {
  return runs_on(code, ptx_version) && (code != KernelCode::Sm90a || binary_version == ptx_version);
}

}  // namespace skald::cuda
