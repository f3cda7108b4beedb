// How the blocks of a cluster merge their partial results of decode attention. Each block sends its
// results straight from registers into the shared memory of the block that merges them, and waits
// only for what is sent to itself. A block that is a cluster of its own stores its results and
// synchronizes.
#pragma once

#include "cuda/kernels/device/cluster.cuh"
#include "cuda/kernels/device/ptx.cuh"

namespace skald::cuda {

// A unit is 4 dimensions of a head. A block merges `each` units, a power of two from 4 on, since
// the output may be stored 16 dimensions at a time. The last blocks may have fewer units or none.
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

// kParts: the most partial results that a block has of a unit. kHeadUnits: units of a head. A
// head's units have the same weights, which are sent with the first of its units in a block's
// share.
template <int kParts, int kHeadUnits>
struct Inbox {
  char* memory;  // inbox_bytes(), dynamic shared memory, aligned to 16
  int shift;     // log2 of each()
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

  // Prepares the barrier for the bytes that other blocks will send. One thread calls this, and the
  // cluster synchronizes before any block sends. `units`: how many units are in this block's share.
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

  // Sends this block's sums of `unit`, an even number, and of the next unit to the block that
  // merges them.
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

  // For all threads: waits until what expect() announced has arrived.
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
  // The first unit of this unit's head in the same block's share.
  __device__ int first_of_head(int unit) const {
    return max(unit - unit % kHeadUnits, unit & ~(each() - 1));
  }
  __device__ int weights_offset() const {
    return kInboxHead + ((blocks * kParts) << shift) * static_cast<int>(sizeof(float4));
  }
};

}  // namespace skald::cuda
