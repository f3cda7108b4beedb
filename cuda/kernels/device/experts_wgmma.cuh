// Products of a warpgroup that wgmma.cuh does not have: 64 weight rows by 128 places, rows along
// the output; weights in shared memory or in registers.
#pragma once

#include "cuda/kernels/device/wgmma.cuh"

namespace skald::cuda {

#if SKALD_HAS_WGMMA

#define SKALD_SUMS_8(i)                                                                       \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
      "+f"(d[i + 6]), "+f"(d[i + 7])
#define SKALD_WGMMA_128(TYPE)                                                                      \
  asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32." TYPE "." TYPE                        \
               " "                                                                                 \
               "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "           \
               "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "  \
               "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "  \
               "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, " \
               "%64, %65, 1, 1, 1, 0, 0;"                                                          \
               : SKALD_SUMS_8(0), SKALD_SUMS_8(8), SKALD_SUMS_8(16), SKALD_SUMS_8(24),             \
                 SKALD_SUMS_8(32), SKALD_SUMS_8(40), SKALD_SUMS_8(48), SKALD_SUMS_8(56)            \
               : "l"(a), "l"(b))

// d[64, 128] += a[64, 16] · b[128, 16]ᵀ
__device__ inline void wgmma_128(Half, float (&d)[64], uint64_t a, uint64_t b) {
  SKALD_WGMMA_128("f16");
}
__device__ inline void wgmma_128(Bf16, float (&d)[64], uint64_t a, uint64_t b) {
  SKALD_WGMMA_128("bf16");
}

#define SKALD_WGMMA_128_REGISTERS                                                               \
  asm volatile(                                                                                 \
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "                                  \
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                 \
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "        \
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "        \
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "       \
      "{%64, %65, %66, %67}, %68, 1, 1, 1, 0;"                                                  \
      : SKALD_SUMS_8(0), SKALD_SUMS_8(8), SKALD_SUMS_8(16), SKALD_SUMS_8(24), SKALD_SUMS_8(32), \
        SKALD_SUMS_8(40), SKALD_SUMS_8(48), SKALD_SUMS_8(56)                                    \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b))

__device__ inline void wgmma_128(float (&d)[64], const uint32_t (&a)[4], uint64_t b) {
  SKALD_WGMMA_128_REGISTERS;
}

#undef SKALD_WGMMA_128_REGISTERS
#undef SKALD_WGMMA_128
#undef SKALD_SUMS_8

#endif

}  // namespace skald::cuda
