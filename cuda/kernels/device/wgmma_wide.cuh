// Warpgroup products with 32 to 160 columns of the output, for kernels that choose the number at
// run time. Rules and layouts are those of wgmma.cuh. Operands in shared memory are [rows, 16],
// with rows along the output.
#pragma once

#include "cuda/kernels/device/wgmma.cuh"

namespace skald::cuda {

#if SKALD_HAS_WGMMA

// clang-format off
// The registers of the sums, in steps of 16.
#define SKALD_REGS_8 "%0, %1, %2, %3, %4, %5, %6, %7"
#define SKALD_REGS_16 SKALD_REGS_8 ", " \
  "%8, %9, %10, %11, %12, %13, %14, %15"
#define SKALD_REGS_32 SKALD_REGS_16 ", " \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define SKALD_REGS_48 SKALD_REGS_32 ", " \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
#define SKALD_REGS_64 SKALD_REGS_48 ", " \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define SKALD_REGS_80 SKALD_REGS_64 ", " \
  "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79"
#define SKALD_OUT_4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define SKALD_OUT_8(i) SKALD_OUT_4(i), SKALD_OUT_4(i + 4)
#define SKALD_OUT_16(i) SKALD_OUT_8(i), SKALD_OUT_8(i + 8)
#define SKALD_OUT_32(i) SKALD_OUT_16(i), SKALD_OUT_16(i + 16)
#define SKALD_OUTS_16 SKALD_OUT_16(0)
#define SKALD_OUTS_32 SKALD_OUT_32(0)
#define SKALD_OUTS_48 SKALD_OUTS_32, SKALD_OUT_16(32)
#define SKALD_OUTS_64 SKALD_OUTS_32, SKALD_OUT_32(32)
#define SKALD_OUTS_80 SKALD_OUTS_64, SKALD_OUT_16(64)

// d[64, N] += a[64, 16] · b[N, 16]ᵀ. SKALD_WGMMA_ROWS: a in registers, f16; SKALD_WGMMA_BOTH: both
// in shared memory. A0 to B are the numbers of the operands behind the sums.
#define SKALD_WGMMA(TYPE, N, SUMS, OPERANDS, ...)                                          \
  asm volatile("wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE "." TYPE             \
               " {" SKALD_REGS_##SUMS "}, " OPERANDS ";" : SKALD_OUTS_##SUMS : __VA_ARGS__)
#define SKALD_WGMMA_ROWS(N, SUMS, A0, A1, A2, A3, B)                                       \
  __device__ inline void wgmma_rows(Half, float (&d)[SUMS], const uint32_t (&a)[4],        \
                                    uint64_t b) {                                          \
    SKALD_WGMMA("f16", N, SUMS,                                                            \
                "{%" #A0 ", %" #A1 ", %" #A2 ", %" #A3 "}, %" #B ", 1, 1, 1, 0",           \
                "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                       \
  }
#define SKALD_WGMMA_BOTH(NUMBER, TYPE, N, SUMS, A, B)                                      \
  __device__ inline void wgmma_add(NUMBER, float (&d)[SUMS], uint64_t a, uint64_t b) {     \
    SKALD_WGMMA(TYPE, N, SUMS, "%" #A ", %" #B ", 1, 1, 1, 0, 0", "l"(a), "l"(b));         \
  }

SKALD_WGMMA_ROWS(96, 48, 48, 49, 50, 51, 52)
SKALD_WGMMA_ROWS(160, 80, 80, 81, 82, 83, 84)
SKALD_WGMMA_BOTH(Half, "f16", 32, 16, 16, 17)
SKALD_WGMMA_BOTH(Half, "f16", 64, 32, 32, 33)
SKALD_WGMMA_BOTH(Half, "f16", 96, 48, 48, 49)
SKALD_WGMMA_BOTH(Half, "f16", 128, 64, 64, 65)
SKALD_WGMMA_BOTH(Half, "f16", 160, 80, 80, 81)
SKALD_WGMMA_BOTH(Bf16, "bf16", 32, 16, 16, 17)
SKALD_WGMMA_BOTH(Bf16, "bf16", 64, 32, 32, 33)
SKALD_WGMMA_BOTH(Bf16, "bf16", 96, 48, 48, 49)
SKALD_WGMMA_BOTH(Bf16, "bf16", 128, 64, 64, 65)
SKALD_WGMMA_BOTH(Bf16, "bf16", 160, 80, 80, 81)
// clang-format on

#undef SKALD_WGMMA
#undef SKALD_WGMMA_ROWS
#undef SKALD_WGMMA_BOTH
#undef SKALD_REGS_8
#undef SKALD_REGS_16
#undef SKALD_REGS_32
#undef SKALD_REGS_48
#undef SKALD_REGS_64
#undef SKALD_REGS_80
#undef SKALD_OUT_4
#undef SKALD_OUT_8
#undef SKALD_OUT_16
#undef SKALD_OUT_32
#undef SKALD_OUTS_16
#undef SKALD_OUTS_32
#undef SKALD_OUTS_48
#undef SKALD_OUTS_64
#undef SKALD_OUTS_80

#endif

}  // namespace skald::cuda
