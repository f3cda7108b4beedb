// Products of a warp (mma.sync) of 16-bit numbers with float sums, and the loads that feed them.
// All but exp2_fast() need sm_80; kernels that use them must not be launched on older GPUs.
#pragma once

#include <cstdint>

#include "cuda/kernels/device/number.cuh"
#include "cuda/kernels/device/ptx.cuh"

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
#define SKALD_HAS_MMA 1
#else
#define SKALD_HAS_MMA 0
#endif

namespace skald::cuda {

// Two numbers in a register, the first in the low half.
__device__ inline uint32_t pack(Half, float low, float high) {
  const __half2 both = __floats2half2_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&both);
}
__device__ inline uint32_t pack(Bf16, float low, float high) {
  const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&both);
}

#if SKALD_HAS_MMA

// d[16, 8] += a[16, 16] · b[16, 8]. Let g = lane / 4 and c = lane % 4. Each register of a and b
// holds two neighbours. a: rows g, g + 8, g, g + 8 at columns 2c, 2c, 2c + 8, 2c + 8. b: rows 2c
// and 2c + 8 at column g. d: columns 2c and 2c + 1 of row g, then of row g + 8.
__device__ inline void mma(Half, float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ inline void mma(Bf16, float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// The same for a[16, 8] · b[8, 8]: a at columns 2c of rows g and g + 8, b at rows 2c.
__device__ inline void mma8(Half, float (&d)[4], uint32_t a0, uint32_t a1, uint32_t b) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, "
      "{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a0), "r"(a1), "r"(b));
}

// d[16, 8] = c + a[16, 32] · b[32, 8] for bytes. a is unsigned, or signed if kSigned; b is signed.
// A register holds four columns: from 4c on where mma() has two from 2c on, and from 4c + 16 on
// where mma() has two from 2c + 8 on.
template <bool kSigned>
__device__ inline void mma_bytes(int (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1,
                                 const int (&c)[4]) {
#define SKALD_MMA_BYTES(type)                                                               \
  asm("mma.sync.aligned.m16n8k32.row.col.s32." type                                         \
      ".s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"                   \
      : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])                                      \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "r"(c[0]), "r"(c[1]), \
        "r"(c[2]), "r"(c[3]))
  if constexpr (kSigned) {
    SKALD_MMA_BYTES("s8");
  } else {
    SKALD_MMA_BYTES("u8");
  }
#undef SKALD_MMA_BYTES
}
// The same for a[16, 16] · b[16, 8], with c = 0.
template <bool kSigned>
__device__ inline void mma16_bytes(int (&d)[4], uint32_t a0, uint32_t a1, uint32_t b) {
#define SKALD_MMA16_BYTES(type)                              \
  asm("mma.sync.aligned.m16n8k16.row.col.s32." type          \
      ".s8.s32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%7,%7,%7,%7};" \
      : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])       \
      : "r"(a0), "r"(a1), "r"(b), "r"(0))
  if constexpr (kSigned) {
    SKALD_MMA16_BYTES("s8");
  } else {
    SKALD_MMA16_BYTES("u8");
  }
#undef SKALD_MMA16_BYTES
}

// Loads four 8x8 matrices from shared memory. Lane i gives the address of row i % 8 of matrix i /
// 8.
__device__ inline void load_matrices(uint32_t (&r)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}
__device__ inline void load_matrices_transposed(uint32_t (&r)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

// Transposes an 8x8 matrix that lies across the warp's registers: lane l has row l / 4, columns 2 *
// (l % 4) and the next.
__device__ inline uint32_t transpose(uint32_t x) {
  uint32_t y;
  asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(y) : "r"(x));
  return y;
}

// Copies 16 bytes to shared memory in the background. If not `valid`, it writes zeros and reads
// nothing.
__device__ inline void copy_async(uint32_t to, const void* from, bool valid) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
               "r"(valid ? 16 : 0)
               : "memory");
}
__device__ inline void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits until at most kGroups committed groups are in flight.
template <int kGroups>
__device__ inline void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kGroups) : "memory");
}

#endif

// 2^x; denormal results become zero.
__device__ inline float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

}  // namespace skald::cuda
