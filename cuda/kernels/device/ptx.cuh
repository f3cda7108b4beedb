// Functions for PTX instructions that CUDA C++ does not offer: barriers in shared memory
// (mbarrier), bulk copies that complete on them, loads, stores, and operations on bits and bytes.
// Barriers, bulk copies and elect_lane() need sm_90; the others run on any GPU.
#pragma once

#include <cstdint>

#include "cuda/kernels/device/delay.cuh"

namespace skald::cuda {

__device__ inline uint32_t shared_address(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

__device__ inline void barrier_init(uint64_t* barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)),
               "r"(arrivals));
}

// Makes barrier_init() visible to the copy engine.
__device__ inline void barrier_init_fence() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// Calls make(i), which initializes one barrier or a few, for each i below `count`. All threads of
// the block call it, and synchronize before they use any barrier. The first lane of each warp takes
// a share: lanes of one warp would run one after the other, each with a fence, and 64 fences took
// more than a microsecond.
template <class Make>
__device__ void init_barriers(int count, const Make& make) {
  if (threadIdx.x % 32 == 0) {
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x) / 32; i < count;
         i += static_cast<int>(blockDim.x) / 32) {
      make(i);
    }
    barrier_init_fence();
  }
}

// One lane may call it, or any set of active lanes.
__device__ inline void lane_waits(uint32_t barrier, unsigned parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "wait:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra finished;\n"
      "bra wait;\n"
      "finished:\n"
      "}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}
__device__ inline void lane_waits(uint64_t* barrier, unsigned parity) {
  lane_waits(shared_address(barrier), parity);
}
// For whole warps. The warp converges after the loop: lanes may leave the loop one by one, and
// matrix instructions need the whole warp.
__device__ inline void barrier_wait(uint32_t barrier, unsigned parity) {
  lane_waits(barrier, parity);
  __syncwarp();
}

// Nonzero if the barrier's phase has completed; does not wait. Poll long before the answer is
// needed.
__device__ inline uint32_t barrier_passed(uint32_t barrier, unsigned parity) {
  uint32_t passed;
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "mbarrier.test_wait.parity.shared::cta.b64 done, [%1], %2;\n"
      "selp.u32 %0, 1, 0, done;\n"
      "}"
      : "=r"(passed)
      : "r"(barrier), "r"(parity)
      : "memory");
  return passed;
}
__device__ inline void barrier_wait_unless(uint32_t passed, uint32_t barrier, unsigned parity) {
  if (!__all_sync(~0u, passed)) barrier_wait(barrier, parity);
}
__device__ inline void barrier_wait(uint64_t* barrier, unsigned parity) {
  barrier_wait(shared_address(barrier), parity);
}

__device__ inline void barrier_arrive(uint32_t barrier) {
  random_delay();
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
__device__ inline void barrier_arrive(uint64_t* barrier) {
  barrier_arrive(shared_address(barrier));
}

// Keeps a value in a register; otherwise the compiler computes it anew at each use. For whole
// warps, with the same value in all lanes.
__device__ inline uint32_t held_address(const void* p) {
  return __shfl_sync(~0u, shared_address(p), 0);
}
__device__ inline uint32_t held_number(uint32_t x) {
  uint32_t y;
  asm volatile(
      "{\n"
      ".reg .u32 lane;\n"
      "mov.u32 lane, %%laneid;\n"
      "shr.u32 lane, lane, 5;\n"
      "add.u32 %0, %1, lane;\n"
      "}"
      : "=r"(y)
      : "r"(x));
  return y;
}

// The same for a pointer into shared memory that differs from lane to lane.
__device__ inline const char* held_pointer(const void* p) {
  const uint32_t address = __shfl_sync(~0u, shared_address(p), static_cast<int>(threadIdx.x) % 32);
  return static_cast<const char*>(__cvta_shared_to_generic(address));
}

// Loads 8 bytes of shared memory into two registers. The compiler would join two such loads into
// one of 16 bytes, and then move registers to where a product wants them.
__device__ inline uint2 load_two(const char* from) {
  uint2 two;
  asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];"
               : "=r"(two.x), "=r"(two.y)
               : "r"(shared_address(from)));
  return two;
}
// Loads 16 bytes if `takes`, without a branch; else `to` keeps its value. Nobody may write the
// memory after `from` is computed, since the compiler may move the load.
__device__ inline void load16_if(bool takes, const char* from, uint4& to) {
  asm("{\n"
      ".reg .pred takes;\n"
      "setp.ne.u32 takes, %4, 0;\n"
      "@takes ld.shared.v4.u32 {%0, %1, %2, %3}, [%5];\n"
      "}"
      : "+r"(to.x), "+r"(to.y), "+r"(to.z), "+r"(to.w)
      : "r"(static_cast<uint32_t>(takes)), "r"(shared_address(from)));
}

// Stores one word to shared memory if `valid`, without a branch.
__device__ inline void store_if(bool valid, void* to, int number) {
  asm volatile(
      "{\n"
      ".reg .pred valid;\n"
      "setp.ne.u32 valid, %0, 0;\n"
      "@valid st.shared.u32 [%1], %2;\n"
      "}" ::"r"(static_cast<uint32_t>(valid)),
      "r"(shared_address(to)), "r"(number)
      : "memory");
}

// Reads global memory that other blocks change at the same time. Orders no other access.
__device__ inline int load_relaxed(const unsigned* from) {
  int number;
  asm volatile("ld.relaxed.gpu.global.s32 %0, [%1];" : "=r"(number) : "l"(from) : "memory");
  return number;
}
// atomicAdd() for one lane. The compiler's version finds the active lanes and adds up their
// numbers.
__device__ inline unsigned lane_adds(unsigned* to, int number) {
  unsigned before;
  asm volatile("atom.relaxed.gpu.global.add.u32 %0, [%1], %2;"
               : "=r"(before)
               : "l"(to), "r"(number)
               : "memory");
  return before;
}

__device__ inline void barrier_expect_bytes(uint64_t* barrier, uint32_t bytes) {
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
      "r"(bytes)
      : "memory");
}

// Orders what this thread has written to shared memory before later bulk copies to the same place.
__device__ inline void shared_writes_before_copies() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// The kThreads threads that call it wait for each other. kId is the number of the hardware barrier.
template <int kId, int kThreads>
__device__ void named_barrier() {
  asm volatile("bar.sync %0, %1;" ::"n"(kId), "n"(kThreads) : "memory");
}

// prmt: four bytes out of a and b. Four bits of `which` choose each byte. If the highest of the
// four is set, the result has the chosen byte's sign bit eight times.
__device__ inline uint32_t choose_bytes(uint32_t a, uint32_t b, uint32_t which) {
  uint32_t bytes;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(bytes) : "r"(a), "r"(b), "r"(which));
  return bytes;
}

// (a ^ b) & mask as one instruction. The compiler would compute a ^ b once for two uses.
__device__ inline uint32_t exclusive_or(uint32_t a, uint32_t b, uint32_t mask) {
  uint32_t bits;
  asm("lop3.b32 %0, %1, %2, %3, 0x28;" : "=r"(bits) : "r"(a), "r"(b), "r"(mask));
  return bits;
}

// True in one lane of the whole warp, always the same one.
__device__ inline bool elect_lane() {
  uint32_t elected;
  asm volatile(
      "{\n"
      ".reg .pred elected;\n"
      "elect.sync _|elected, 0xffffffff;\n"
      "selp.u32 %0, 1, 0, elected;\n"
      "}"
      : "=r"(elected));
  return elected != 0;
}

// For data that is read once: the L2 cache evicts it first.
__device__ inline uint64_t evict_first_policy() {
  uint64_t policy;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

__device__ inline uint64_t evict_normal_policy() {
  uint64_t policy;
  asm volatile("createpolicy.fractional.L2::evict_normal.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

// Copies global to shared memory; `barrier` counts the bytes. Both addresses and `bytes` are
// multiples of 16.
__device__ inline void bulk_copy(void* shared, const void* global, uint32_t bytes,
                                 uint64_t* barrier, uint64_t policy) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
      "[%0], [%1], %2, [%3], %4;" ::"r"(shared_address(shared)),
      "l"(global), "r"(bytes), "r"(shared_address(barrier)), "l"(policy)
      : "memory");
}

__device__ inline void prefetch_l2(const void* global) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(global));
}

}  // namespace skald::cuda
