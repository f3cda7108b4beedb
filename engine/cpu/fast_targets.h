// The instruction sets that the SIMD files are compiled for. Those files include this header before
// Highway, which chooses one of the sets at run time.
#pragma once

#define HWY_WANT_AVX3_DL  // AVX-512 with VNNI
// Enables the fallback in plain C++. Highway disables it for g++ before 12.3, which miscompiles
// averages and high halves of products; the kernels use neither.
#define HWY_BROKEN_EMU128 0
// Disabled targets: SSSE3 (CPUs that have it but not SSE4 are too old to matter); scalable vectors,
// because the kernels keep vectors in arrays; and sets of newer Highway versions that do not help
// here: SSE2 (1 << 14), AVX3_ZEN4 (1 << 6) and AVX3_SPR (1 << 4).
#define HWY_DISABLED_TARGETS                                                             \
  (HWY_SSSE3 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV | (1LL << 14) | \
   (1LL << 6) | (1LL << 4))

// Ends a SIMD file, inside #if HWY_ONCE. Every instruction set's namespace has a NAME_table(),
// which returns its functions; this defines `const Kernels& NAME_kernels()`, the table of the best
// instruction set that the machine has.
#define SKALD_DISPATCH(Kernels, name)                                               \
  namespace skald::cpu {                                                            \
  HWY_EXPORT(name##_table);                                                         \
  const Kernels& name##_kernels() { return *HWY_DYNAMIC_DISPATCH(name##_table)(); } \
  } /* namespace skald::cpu */
