// The factors of a chunk, for both kernels of chunks. delta_chunks.cu has the equations.
#pragma once

#include "cuda/kernels/states/bf16_pairs.cuh"
#include "cuda/kernels/states/delta_state.cuh"

namespace skald::cuda {

// The factors of one chunk and head. A matrix [16, 16] lies as a product's right factor: lane l = 4
// g + c has rows g and g + 8, of each columns 2c, 2c + 1, 2c + 8 and 2c + 9.
struct ChunkFactors {
  uint4 learned[2][32];         // M: the bf16 nearest to each number, then the remainders
  uint4 read[2][32];            // W
  float kept[kDeltaChunkRows];  // G
};
static_assert(sizeof(ChunkFactors) == kDeltaFactorFloats * sizeof(float));
static_assert(sizeof(ChunkFactors) % 16 == 0);

__device__ inline ChunkFactors* chunk_factors(const DeltaLaunch& a, int64_t chunk, int head) {
  return reinterpret_cast<ChunkFactors*>(a.factors) + chunk * a.shape.spec.value_heads + head;
}
// The place of the first chunk of a sequence. The next sequence's first place is beyond the last
// one that this sequence needs.
__device__ inline int64_t first_chunk(int begin, int sequence) {
  return begin / kDeltaChunkRows + sequence;
}

}  // namespace skald::cuda
