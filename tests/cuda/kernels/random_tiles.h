// Matrices of a block format, made of random bits and packed as the GPU's kernels read them.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "cuda/gpu/check.h"
#include "cuda/gpu/memory.h"
#include "cuda/plan/tile_pack.h"
#include "engine/selftest/random_blocks.h"

namespace skald::test {

// Memory with `numbers`, ready for every stream. cudaMemcpy() from ordinary memory may return while
// the copy is still on its way, and streams of StreamOwner do not wait for the default stream.
template <class T>
cuda::DeviceMemory on_device(const std::vector<T>& numbers) {
  const size_t bytes = numbers.size() * sizeof(T);
  cuda::DeviceMemory memory(static_cast<int64_t>(bytes), "a test");
  SKALD_CUDA(cudaMemcpy(memory.as<void>(), numbers.data(), bytes, cudaMemcpyHostToDevice));
  SKALD_CUDA(cudaDeviceSynchronize());
  return memory;
}

inline cuda::DeviceMemory random_tiles(DType type, int64_t outs, int64_t ins,
                                       std::mt19937& random) {
  const int64_t size = info(type).block_bytes, blocks = outs * ins / info(type).block_elems;
  std::vector<std::byte> rows(static_cast<size_t>(blocks * size));
  for (std::byte& byte : rows) byte = static_cast<std::byte>(random());
  for (int64_t i = 0; i < blocks; ++i) selftest::set_scales(type, rows.data() + i * size, random);
  std::vector<std::byte> packed(static_cast<size_t>(cuda::tile_bytes(type, outs, ins)));
  cuda::pack_tiles({rows.data(), type, outs, ins, row_bytes(type, ins)}, packed.data());
  return on_device(packed);
}

}  // namespace skald::test
