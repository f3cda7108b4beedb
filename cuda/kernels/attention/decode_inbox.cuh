// How the blocks of a cluster merge their partial results of decode attention: each sends what it
// has to the block that merges it, straight from registers into that one's shared memory, and waits
// only for what it is sent itself. A block that is a cluster of its own stores and meets.
#pragma once

#include "cuda/kernels/device/cluster.cuh"
#include "cuda/kernels/device/ptx.cuh"

namespace skald::cuda {

// A unit is 4 dimensions of a head. A block merges `each` of them, a power of two from 4 on, since
// 16 dimensions may be left together; the last blocks may have fewer or none.
inline constexpr int kFewestUnitsShift = 2;
inline constexpr int kInboxHead = 16;  // bytes before the first sum
__host__ __device__ constexpr int units_of_each(int units, int blocks) {
  int each = 1 << kFewestUnitsShift;
  while (each * blocks < units) each *= 2;
  return each;
}
__host__ __device__ constexpr int inbox_bytes(int units, int blocks, int parts) {
  return kInboxHead +
         units_of_each(units, blocks) * blocks * parts * int{sizeof(float4) + sizeof(float2)};
}

// kParts: partial results that a block has of a unit, at most. kHeadUnits: of a head, whose units
// have their weights in common; they go along with the first one of these in a block's share.
template <int kParts, int kHeadUnits>
struct Inbox {
  char* memory;  // inbox_bytes(), dynamic shared memory, aligned to 16
  int shift;     // of `each`
  int blocks, rank;

  __device__ Inbox(char* inbox, int units, int cluster, int own_rank)
      : memory(inbox), blocks(cluster), rank(own_rank) {
    shift = kFewestUnitsShift;
    while ((cluster << shift) < units) ++shift;
  }
  __device__ int each() const { return 1 << shift; }
  __device__ int place(int from, int part, int unit) const {
    return ((from * kParts + part) << shift) + (unit & (each() - 1));
  }

  // By one thread; then the cluster must meet before anything is sent. `units`: of this block's
  // share.
  __device__ void expect(int units) const {
#if __CUDA_ARCH__ >= 900
    if (blocks == 1) return;
    uint64_t* barrier = reinterpret_cast<uint64_t*>(memory);
    barrier_init(barrier, 1);
    barrier_init_fence();
    const int first = rank << shift;
    const int heads = units > 0 ? (first + units - 1) / kHeadUnits - first / kHeadUnits + 1 : 0;
    barrier_expect_bytes(
        barrier,
        static_cast<uint32_t>(blocks * kParts * (units * sizeof(float4) + heads * sizeof(float2))));
#endif
  }

  // Of this block, into that of the block that merges the unit, an even one, and the next.
  __device__ void send(int unit, int part, const float4 (&sums)[2], float2 weights) const {
    const int at = place(rank, part, unit);
    const bool first = first_of_head(unit) == unit;
    if (blocks == 1) {
      reinterpret_cast<float4*>(memory + kInboxHead)[at] = sums[0];
      reinterpret_cast<float4*>(memory + kInboxHead)[at + 1] = sums[1];
      if (first) reinterpret_cast<float2*>(memory + weights_offset())[at] = weights;
      return;
    }
#if __CUDA_ARCH__ >= 900
    uint32_t there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;"
        : "=r"(there)
        : "r"(shared_address(memory)), "r"(unit >> shift));
    const uint32_t to = there + kInboxHead + at * static_cast<int>(sizeof(float4));
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float4& sum = sums[i];
      asm volatile(
          "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, "
          "[%5];" ::"r"(to + i * static_cast<int>(sizeof(float4))),
          "f"(sum.x), "f"(sum.y), "f"(sum.z), "f"(sum.w), "r"(there)
          : "memory");
    }
    if (!first) return;
    asm volatile(
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [%0], {%1, %2}, [%3];" ::"r"(
            there + weights_offset() + at * static_cast<int>(sizeof(float2))),
        "f"(weights.x), "f"(weights.y), "r"(there)
        : "memory");
#endif
  }

  // For all threads: what expect() named has come.
  __device__ void wait() const {
    if (blocks == 1) {
      __syncthreads();
      return;
    }
#if __CUDA_ARCH__ >= 900
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "wait:\n"
        "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], 0;\n"
        "@done bra finished;\n"
        "bra wait;\n"
        "finished:\n"
        "}" ::"r"(shared_address(memory))
        : "memory");
    __syncwarp();
#endif
  }

  __device__ float4 sum(int from, int part, int unit) const {
    return reinterpret_cast<const float4*>(memory + kInboxHead)[place(from, part, unit)];
  }
  __device__ float2 weights(int from, int part, int unit) const {
    const int at = place(from, part, first_of_head(unit));
    return reinterpret_cast<const float2*>(memory + weights_offset())[at];
  }

 private:
  // Of the units of this one's head that are in the same block's share.
  __device__ int first_of_head(int unit) const {
    return max(unit - unit % kHeadUnits, unit & ~(each() - 1));
  }
  __device__ int weights_offset() const {
    return kInboxHead + ((blocks * kParts) << shift) * static_cast<int>(sizeof(float4));
  }
};

}  // namespace skald::cuda
