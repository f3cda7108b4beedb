// The GPU's side of a CpuTurn.
#pragma once

#include "cuda/kernels/host_rows/host_rows.h"

namespace skald::cuda {

// All threads of the only block call this, after their writes to the host's memory.
__device__ inline void send_request(const CpuTurn& turn, Request request) {
  __threadfence_system();
  __syncthreads();
  if (threadIdx.x > 0) return;
  asm volatile("st.release.sys.global.u32 [%0], %1;"
               :
               : "l"(turn.request), "r"(static_cast<uint32_t>(request))
               : "memory");
}

__device__ inline uint32_t load_from_host(const uint32_t* word) {
  uint32_t value;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
  return value;
}

// All threads of the only block call this.
__device__ inline void wait_for_answer(const CpuTurn& turn) {
  if (threadIdx.x == 0) {
    while (load_from_host(turn.answer) == 0 && load_from_host(turn.aborted) == 0) __nanosleep(200);
    *turn.answer = 0;
    __threadfence_system();
  }
  __syncthreads();
}

}  // namespace skald::cuda
