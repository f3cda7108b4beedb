// Which instruction sets the SIMD files are compiled for; they include this before Highway and pick
// one at run time.
#pragma once

#define HWY_WANT_AVX3_DL  // AVX-512 with VNNI
// The fallback in plain C++. Highway leaves it out for g++ before 12.3, which miscompiles averages
// and high halves of products; the kernels use neither.
#define HWY_BROKEN_EMU128 0
// Left out: SSSE3 (the next one up is as old in practice), the scalable ones, since the kernels
// keep vectors in arrays, and, of newer Highways, those that bring nothing here: SSE2 (1 << 14),
// AVX3_ZEN4 (1 << 6) and AVX3_SPR (1 << 4).
#define HWY_DISABLED_TARGETS                                                             \
  (HWY_SSSE3 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV | (1LL << 14) | \
   (1LL << 6) | (1LL << 4))
