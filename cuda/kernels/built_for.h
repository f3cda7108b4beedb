// Whether this build holds code for sm_90a. Without it the kernels named *_sm90 are empty, and must
// not be chosen even on a GPU that could run them.
#pragma once

namespace skald::cuda {

#ifdef SKALD_HAS_SM90A
inline constexpr bool kHasSm90a = true;
#else
inline constexpr bool kHasSm90a = false;
#endif

}  // namespace skald::cuda
