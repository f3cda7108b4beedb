// Shared by all samplers: the ranking of tokens, and the end of a pick.
#pragma once

#include <cstdint>

#include "cuda/kernels/sample/sample.h"
#include "engine/sampling/token_weight.h"

namespace skald::cuda {

// A key ranks a token: a better token has a larger key. Of equal logits, the lower id is better.
// Ids are below kMostWeighedTokens and take 20 bits. 0 stands for no token.
inline constexpr int kIdBits = 20;
inline constexpr uint64_t kIdMask = (uint64_t{1} << kIdBits) - 1;
inline constexpr uint64_t kBadKey = (uint64_t{1} << (32 + kIdBits)) - 1;  // above every token's

__device__ inline uint64_t rank_key(float logit, int id) {
  const uint32_t bits = f32_to_bits(logit + 0.0f);  // -0 becomes 0: they are equal logits
  const uint32_t order = bits >> 31 ? ~bits : bits | 0x80000000u;
  return uint64_t{order} << kIdBits | (kIdMask - static_cast<uint64_t>(id));
}
__device__ inline int id_of_key(uint64_t key) {
  return static_cast<int>(kIdMask - (key & kIdMask));
}
__device__ inline float logit_of_key(uint64_t key) {
  const uint32_t order = static_cast<uint32_t>(key >> kIdBits);
  return bits_to_f32(order >> 31 ? order & 0x7fffffffu : ~order);
}

// Every lane gets the best key. Keys have 32 + kIdBits bits.
__device__ inline uint64_t warp_best(uint64_t key) {
#if __CUDA_ARCH__ >= 800
  const auto logit = static_cast<uint32_t>(key >> kIdBits);
  const uint32_t best = __reduce_max_sync(~0u, logit);
  const uint32_t id = logit == best ? static_cast<uint32_t>(key & kIdMask) : 0;
  return uint64_t{best} << kIdBits | __reduce_max_sync(~0u, id);
#else
  for (int offset = 16; offset > 0; offset /= 2) {
    const uint64_t other = __shfl_xor_sync(~0u, key, offset);
    key = other > key ? other : key;
  }
  return key;
#endif
}

__device__ inline uint64_t warp_sum(uint64_t value) {
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(~0u, value, offset);
  return value;
}

// Ends a row's pick. One thread calls it, after the rest of the row's result is written and after
// the last read of the row's settings. `next` is a copy of SampleRow::next.
__device__ inline void end_pick(const SampleLaunch& a, int row, const NextRow& next,
                                SampleStatus status, int token) {
  if (a.next.tokens) {
    a.next.tokens[row] = token;
    a.next.positions[row] = next.position;
    a.next.sequences[row] = row;
    a.next.begins[row + 1] = row + 1;  // begins[0] is 0 in every step
    a.next.page_table[next.page_entry] = next.page;
    a.next.slots[row] = next.slot;
  }
  if (a.results_on_host) __threadfence_system();
  *static_cast<volatile SampleStatus*>(&a.results[row].status) = status;
}

}  // namespace skald::cuda
