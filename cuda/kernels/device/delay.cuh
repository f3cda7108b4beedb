// Does nothing unless skald is built with -DSKALD_CUDA_DELAYS=ON. Then a warp sleeps now and then
// where kernels, warps and copies synchronize, so that tests find a missing wait.
#pragma once

namespace skald::cuda {

__device__ inline void random_delay() {
#ifdef SKALD_CUDA_DELAYS
  unsigned random =
      static_cast<unsigned>(clock64()) ^ (blockIdx.x * 0x9E3779B9u + threadIdx.x / 32);
  random *= 0x85EBCA6Bu;
  random ^= random >> 15;
  random *= 0xC2B2AE35u;
  constexpr unsigned kLongest = 50000;  // ns
  if (random >> 27 == 0) __nanosleep((random & 0x7ffffff) % kLongest);
#endif
}

}  // namespace skald::cuda
