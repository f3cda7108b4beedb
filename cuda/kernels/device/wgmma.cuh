// Products of a warpgroup (4 warps) on sm_90a. They run asynchronously. Operands in shared memory
// have rows of 128 bytes, at bases aligned to 1024 bytes; the 16-byte unit u of a row lies at place
// u ^ row % 8. Sums, and a left operand in registers, lie in the lanes as for mma() in mma.cuh;
// warp w has rows 16 w to 16 w + 15.
//
// Between wgmma_fence() and the wait for the group nothing may touch the registers involved.
#pragma once

#include <cstdint>

#include "cuda/kernels/device/number.cuh"

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define SKALD_HAS_WGMMA 1
#else
#define SKALD_HAS_WGMMA 0
#endif

namespace skald::cuda {

#if SKALD_HAS_WGMMA

// The descriptor of an operand. `step`: bytes between groups of 8 rows. `jump`: bytes between
// groups of 64 columns, for an operand whose rows run along the sum.
__device__ constexpr uint64_t matrix_descriptor(uint32_t address, uint32_t step, uint32_t jump) {
  constexpr uint64_t kSwizzle128 = uint64_t{1} << 62;
  return kSwizzle128 | uint64_t{step >> 4} << 32 | uint64_t{jump >> 4} << 16 |
         (address & 0x3ffff) >> 4;
}

// The descriptor of 16 columns in rows of 32 bytes, at bases aligned to 256 bytes. The two 16-byte
// units of a row trade places where row / 4 is odd.
__device__ constexpr uint64_t narrow_matrix_descriptor(uint32_t address, uint32_t step) {
  constexpr uint64_t kSwizzle32 = uint64_t{3} << 62;
  return kSwizzle32 | uint64_t{step >> 4} << 32 | (address & 0x3ffff) >> 4;
}

__device__ inline void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// Waits until at most kGroups committed groups are running.
template <int kGroups>
__device__ inline void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kGroups) : "memory");
}

// Changes the registers of each thread of a warpgroup to kCount, a multiple of 8. Other warpgroups
// can take registers that one gives back.
template <int kCount>
__device__ inline void set_registers_down() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
}
template <int kCount>
__device__ inline void set_registers_up() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
}

// Makes ordinary stores and cp.async writes visible to wgmma.
__device__ inline void fence_for_products() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

#define SKALD_SUMS_4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define SKALD_SUMS_8(i)                                                                       \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
      "+f"(d[i + 6]), "+f"(d[i + 7])
#define SKALD_SUMS_32 SKALD_SUMS_8(0), SKALD_SUMS_8(8), SKALD_SUMS_8(16), SKALD_SUMS_8(24)

// d[64, 128] = a[64, 16] · b[128, 16]ᵀ, or += if `add`. Both operands are in shared memory, with
// rows along the output.
#define SKALD_WGMMA_SHARED(TYPE)                                                              \
  asm volatile(                                                                               \
      "{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"                                            \
      "wgmma.mma_async.sync.aligned.m64n128k16.f32." TYPE "." TYPE                            \
      " "                                                                                     \
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "               \
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "      \
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "      \
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "     \
      "%64, %65, p, 1, 1, 0, 0;\n}"                                                           \
      : SKALD_SUMS_32, SKALD_SUMS_8(32), SKALD_SUMS_8(40), SKALD_SUMS_8(48), SKALD_SUMS_8(56) \
      : "l"(a), "l"(b), "r"(static_cast<int>(add)))

// d[64, n] += a[64, 16] · b, with a in registers and b in shared memory. ALONG is 1 for b[16, n],
// with rows along the sum, and 0 for b[n, 16]ᵀ, with rows along the output.
#define SKALD_WGMMA_8(TYPE, ALONG)                                            \
  asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32." TYPE "." TYPE     \
               " {%0, %1, %2, %3}, {%4, %5, %6, %7}, %8, 1, 1, 1, " ALONG ";" \
               : SKALD_SUMS_4(0)                                              \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b))
#define SKALD_WGMMA_16(TYPE, ALONG)                                                              \
  asm volatile("wgmma.mma_async.sync.aligned.m64n16k16.f32." TYPE "." TYPE                       \
               " {%0, %1, %2, %3, %4, %5, %6, %7}, {%8, %9, %10, %11}, %12, 1, 1, 1, " ALONG ";" \
               : SKALD_SUMS_8(0)                                                                 \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b))
#define SKALD_WGMMA_32(TYPE, ALONG)                                                       \
  asm volatile("wgmma.mma_async.sync.aligned.m64n32k16.f32." TYPE "." TYPE                \
               " "                                                                        \
               "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, " \
               "{%16, %17, %18, %19}, %20, 1, 1, 1, " ALONG ";"                           \
               : SKALD_SUMS_8(0), SKALD_SUMS_8(8)                                         \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b))
#define SKALD_WGMMA_64(TYPE, ALONG)                                                                \
  asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32." TYPE "." TYPE                         \
               " "                                                                                 \
               "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "           \
               "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, " \
               "{%32, %33, %34, %35}, %36, 1, 1, 1, " ALONG ";"                                    \
               : SKALD_SUMS_32                                                                     \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b))
#define SKALD_WGMMA_128(TYPE, ALONG)                                                               \
  asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32." TYPE "." TYPE                        \
               " "                                                                                 \
               "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "           \
               "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "  \
               "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "  \
               "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, " \
               "{%64, %65, %66, %67}, %68, 1, 1, 1, " ALONG ";"                                    \
               : SKALD_SUMS_32, SKALD_SUMS_8(32), SKALD_SUMS_8(40), SKALD_SUMS_8(48),              \
                 SKALD_SUMS_8(56)                                                                  \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b))

__device__ inline void wgmma(Half, float (&d)[64], uint64_t a, uint64_t b, bool add) {
  SKALD_WGMMA_SHARED("f16");
}
__device__ inline void wgmma(Bf16, float (&d)[64], uint64_t a, uint64_t b, bool add) {
  SKALD_WGMMA_SHARED("bf16");
}
__device__ inline void wgmma(Half, float (&d)[32], const uint32_t (&a)[4], uint64_t b) {
  SKALD_WGMMA_64("f16", "1");
}
__device__ inline void wgmma(Bf16, float (&d)[32], const uint32_t (&a)[4], uint64_t b) {
  SKALD_WGMMA_64("bf16", "1");
}
__device__ inline void wgmma(Half, float (&d)[64], const uint32_t (&a)[4], uint64_t b) {
  SKALD_WGMMA_128("f16", "1");
}
__device__ inline void wgmma(Bf16, float (&d)[64], const uint32_t (&a)[4], uint64_t b) {
  SKALD_WGMMA_128("bf16", "1");
}

__device__ inline void wgmma_rows(Half, float (&d)[4], const uint32_t (&a)[4], uint64_t b) {
  SKALD_WGMMA_8("f16", "0");
}
__device__ inline void wgmma_rows(Half, float (&d)[8], const uint32_t (&a)[4], uint64_t b) {
  SKALD_WGMMA_16("f16", "0");
}
__device__ inline void wgmma_rows(Half, float (&d)[16], const uint32_t (&a)[4], uint64_t b) {
  SKALD_WGMMA_32("f16", "0");
}
__device__ inline void wgmma_rows(Half, float (&d)[32], const uint32_t (&a)[4], uint64_t b) {
  SKALD_WGMMA_64("f16", "0");
}
__device__ inline void wgmma_rows(Half, float (&d)[64], const uint32_t (&a)[4], uint64_t b) {
  SKALD_WGMMA_128("f16", "0");
}

#undef SKALD_WGMMA_SHARED
#undef SKALD_WGMMA_8
#undef SKALD_WGMMA_16
#undef SKALD_WGMMA_32
#undef SKALD_WGMMA_64
#undef SKALD_WGMMA_128
#undef SKALD_SUMS_4
#undef SKALD_SUMS_8
#undef SKALD_SUMS_32

#endif

}  // namespace skald::cuda
