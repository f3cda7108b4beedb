// Nothing, unless skald is built with -DSKALD_CUDA_DELAYS=ON: then now and then a warp sleeps where
// kernels, warps and copies meet, so that what is ordered by luck alone shows in the tests.
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
