// The keys or values of a head as codes of the cache (engine/quant/cache_type.h), and as numbers
// that a warp holds: lane l has the numbers 128 j + 4 l and the next three, for each j. Numbers
// beyond the head are 0. All lanes of a warp call these functions together.
#pragma once

#include "cuda/kernels/device/number.cuh"
#include "engine/base/float8.h"
#include "engine/base/hadamard.h"
#include "engine/memory/cache_layout.h"
#include "engine/quant/cache_block.h"

namespace skald::cuda {

// For heads of up to 128 * kChunks dimensions.
template <int kChunks>
struct HeadNumbers {
  float x[kChunks][4] = {};

  static __device__ int lane() { return static_cast<int>(threadIdx.x) % 32; }
  static __device__ int first(int j) { return 128 * j + 4 * lane(); }

  // Calls fn(number, index) for each of the lane's numbers that the head has.
  template <class Fn>
  __device__ void for_each(int head_dim, const Fn& fn) {
#pragma unroll
    for (int j = 0; j < kChunks; ++j) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (first(j) + i < head_dim) fn(x[j][i], first(j) + i);
      }
    }
  }

  // Plain numbers, four at a time where the head's size allows.
  template <class T>
  __device__ void load(const T* from, int head_dim) {
    if (head_dim % 4 != 0) {
      for_each(head_dim, [&](float& number, int at) { number = to_float(from[at]); });
      return;
    }
#pragma unroll
    for (int j = 0; j < kChunks; ++j) {
      if (first(j) >= head_dim) break;
      const auto four = *reinterpret_cast<const Pack<T, 4>*>(from + first(j));
#pragma unroll
      for (int i = 0; i < 4; ++i) x[j][i] = to_float(four.x[i]);
    }
  }
  template <class T>
  __device__ void store(T* to, int head_dim) {
    if (head_dim % 4 != 0) {
      for_each(head_dim, [&](float& number, int at) { to[at] = from_float<T>(number); });
      return;
    }
#pragma unroll
    for (int j = 0; j < kChunks; ++j) {
      if (first(j) >= head_dim) break;
      Pack<T, 4> four;
#pragma unroll
      for (int i = 0; i < 4; ++i) four.x[i] = from_float<T>(x[j][i]);
      *reinterpret_cast<Pack<T, 4>*>(to + first(j)) = four;
    }
  }

  // Multiplies each block of hadamard_block(head_dim) numbers by the Hadamard matrix. The block has
  // at least 32 numbers.
  __device__ void rotate(int head_dim) {
    const auto block = static_cast<int>(hadamard_block(head_dim));
#pragma unroll
    for (int j = 0; j < kChunks; ++j) {
      float(&four)[4] = x[j];
      const float a = four[0] + four[1], b = four[0] - four[1];
      const float c = four[2] + four[3], d = four[2] - four[3];
      four[0] = a + c, four[1] = b + d, four[2] = a - c, four[3] = b - d;
    }
    const int most = min(block, 128);
#pragma unroll 1
    for (int half = 4; half < most; half *= 2) {
      const bool high = lane() & half / 4;
#pragma unroll
      for (int j = 0; j < kChunks; ++j) {
#pragma unroll
        for (float& number : x[j]) {
          const float other = __shfl_xor_sync(~0u, number, half / 4);
          number = high ? other - number : number + other;
        }
      }
    }
#pragma unroll
    for (int half = 1; half < kChunks; half *= 2) {  // chunks
      if (128 * half >= block) break;
#pragma unroll
      for (int j = 0; j < kChunks; ++j) {
        if (j & half || j + half >= kChunks) continue;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const float low = x[j][i], high = x[j + half][i];
          x[j][i] = low + high;
          x[j + half][i] = low - high;
        }
      }
    }
    const float scale = rsqrtf(static_cast<float>(block));
#pragma unroll
    for (int j = 0; j < kChunks; ++j) {
#pragma unroll
      for (float& number : x[j]) number *= scale;
    }
  }
};

// Where a head's codes and scales lie.
struct CacheRow {
  uint8_t* codes;
  uint16_t* scales;
};
// Finds a token's keys, or its values, of one layer in a page that starts at `page`.
__device__ inline CacheRow cache_row(const LayerCache& layer, bool values, std::byte* page,
                                     int head, int token) {
  std::byte* const from = page + (values ? layer.values_at() : 0);
  // A copy: a reference would put the layer into local memory.
  CacheHalf half = layer.keys;
  if (values) half = layer.values;
  return {reinterpret_cast<uint8_t*>(from + half.codes_at(head, token)),
          reinterpret_cast<uint16_t*>(from + half.scales_at(head, token))};
}

// Stores the head as codes, and replaces the numbers by what the codes say.
template <int kChunks>
__device__ void encode_head(CacheType type, HeadNumbers<kChunks>& head, int head_dim,
                            const CacheRow& to) {
  switch (type) {
    case CacheType::F32:
      return head.store(reinterpret_cast<float*>(to.codes), head_dim);
    case CacheType::F16:
      head.store(reinterpret_cast<Half*>(to.codes), head_dim);
      return head.for_each(head_dim, [](float& x, int) { x = to_float(from_float<Half>(x)); });
    case CacheType::BF16:
      head.store(reinterpret_cast<Bf16*>(to.codes), head_dim);
      return head.for_each(head_dim, [](float& x, int) { x = to_float(from_float<Bf16>(x)); });
    case CacheType::FP8:
      return head.for_each(head_dim, [&](float& x, int at) {
        const uint8_t code = f32_to_e4m3(x);
        to.codes[at] = code;
        x = e4m3_to_f32(code);
      });
    case CacheType::Q8_0:
    case CacheType::Q4_0:
      break;
  }
  const bool bytes = type == CacheType::Q8_0;
#pragma unroll
  for (int j = 0; j < kChunks; ++j) {
    float(&four)[4] = head.x[j];
    const int at = head.first(j), in_block = at % kCacheBlock;
    uint32_t key = 0;  // the largest of eight lanes, which have a block
#pragma unroll
    for (const float number : four) key = max(key, magnitude_key(number));
#pragma unroll
    for (int lanes = 1; lanes < kCacheBlock / 4; lanes *= 2) {
      key = max(key, __shfl_xor_sync(~0u, key, lanes));
    }
    const uint16_t scale = cache_scale(type, number_of_key(key));
    const float inverse = inverse_of_scale(scale), step = f16_to_f32(scale);
    uint32_t codes = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int code = cache_code(type, four[i], inverse);
      codes |= (bytes ? static_cast<uint32_t>(code) & 255 : static_cast<uint32_t>(code + 8))
               << 8 * i;
      four[i] = step * static_cast<float>(code);
    }
    // A byte of Q4_0 has the numbers n and n + 16 of a block; the latter are four lanes further.
    const uint32_t high = __shfl_down_sync(~0u, codes, 4);
    if (at >= head_dim) continue;
    if (bytes) {
      *reinterpret_cast<uint32_t*>(to.codes + at) = codes;
    } else if (in_block < kCacheBlock / 2) {
      *reinterpret_cast<uint32_t*>(to.codes + at / kCacheBlock * 16 + in_block) = codes | high << 4;
    }
    if (in_block == 0) to.scales[at / kCacheBlock] = scale;
  }
}

// True if load_codes() brings a head's codes: those of 4 and of 8 bits, four at a time.
__device__ inline bool loads_codes(CacheType type, int head_dim) {
  return code_bits(type) <= 8 && head_dim % 4 == 0;
}

// A lane's codes of a head before they are numbers, so that those of several tokens are under way
// together. The loads pass the L1 cache by, since an earlier kernel of the step may have written
// the codes.
template <int kChunks>
struct HeadCodes {
  uint32_t codes[kChunks];
  uint16_t scales[kChunks];

  __device__ void load(CacheType type, const CacheRow& from, int head_dim) {
    using Numbers = HeadNumbers<kChunks>;
#pragma unroll
    for (int j = 0; j < kChunks; ++j) {
      const int at = Numbers::first(j) < head_dim ? Numbers::first(j) : 0;
      const int nibbles = at / kCacheBlock * 16 + at % (kCacheBlock / 2);
      const int byte = type == CacheType::Q4_0 ? nibbles : at;
      codes[j] = __ldcg(reinterpret_cast<const unsigned*>(from.codes + byte));
      scales[j] = has_scales(type) ? __ldcg(from.scales + at / kCacheBlock) : uint16_t{0};
    }
  }
  __device__ HeadNumbers<kChunks> numbers(CacheType type, int head_dim) const {
    HeadNumbers<kChunks> head;
#pragma unroll
    for (int j = 0; j < kChunks; ++j) {
      const int at = head.first(j);
      if (at >= head_dim) break;
      const float scale = f16_to_f32(scales[j]);
      // The codes n + 16 of a block are the high halves of bytes.
      const uint32_t nibbles = (at % kCacheBlock < kCacheBlock / 2 ? codes[j] : codes[j] >> 4);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const uint32_t code = codes[j] >> 8 * i & 255;
        if (type == CacheType::FP8) {
          head.x[j][i] = e4m3_to_f32(static_cast<uint8_t>(code));
        } else if (type == CacheType::Q8_0) {
          head.x[j][i] = scale * static_cast<float>(static_cast<int8_t>(code));
        } else {
          head.x[j][i] = scale * static_cast<float>(static_cast<int>(nibbles >> 8 * i & 15) - 8);
        }
      }
    }
    return head;
  }
};

// The numbers of a head that loads_codes() does not take.
template <int kChunks>
__device__ HeadNumbers<kChunks> load_numbers(CacheType type, const CacheRow& from, int head_dim) {
  HeadNumbers<kChunks> head;
  switch (type) {
    case CacheType::F32:
      head.load(reinterpret_cast<const float*>(from.codes), head_dim);
      break;
    case CacheType::F16:
      head.load(reinterpret_cast<const Half*>(from.codes), head_dim);
      break;
    case CacheType::BF16:
      head.load(reinterpret_cast<const Bf16*>(from.codes), head_dim);
      break;
    case CacheType::FP8:
      head.for_each(head_dim, [&](float& x, int at) { x = e4m3_to_f32(__ldcg(from.codes + at)); });
      break;
    case CacheType::Q8_0:
    case CacheType::Q4_0:
      break;  // their heads are whole blocks
  }
  return head;
}

}  // namespace skald::cuda
