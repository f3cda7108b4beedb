// Strips as in decode_ring.cuh, of a cache of codes (Q8_0, FP8, Q4_0): each warp has a ring in
// shared memory that bulk copies fill with codes and scales, and lanes make f16 numbers of them.
//
// A code is an exact f16 number, and its product with the scale is rounded once. So the kernel
// reads a half or less of the bytes of a plain cache, and computes some two instructions more for
// each number. Keys and values of Q4_0 are rotated: queries are rotated too, and the output is
// rotated back by attention_decode_codes_sm90's second kernel.
#pragma once

#include "cuda/kernels/attention/cache_codes.cuh"
#include "cuda/kernels/attention/warp_ring.cuh"

namespace skald::cuda {

__device__ inline uint32_t f16_product(uint32_t x, uint32_t y) {
  uint32_t product;
  asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(product) : "r"(x), "r"(y));
  return product;
}
// Four codes, a byte each, as f16 numbers. Q4_0: the low halves of bytes.
template <CacheType kType>
__device__ inline uint2 f16_of_codes(uint32_t codes, uint32_t scale) {
  uint32_t numbers[2];
  if constexpr (kType == CacheType::FP8) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const auto two = static_cast<uint16_t>(codes >> 16 * i);
      asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(numbers[i]) : "h"(two));
    }
  } else {
    // The f16 with the bits 0x6400 + n is 1024 + n. n is the code + 128, or + 8.
    constexpr bool kBytes = kType == CacheType::Q8_0;
    constexpr uint32_t kBias = kBytes ? 0x64806480u : 0x64086408u;  // 1152, 1032
    const uint32_t biased = kBytes ? codes ^ 0x80808080u : codes & 0x0f0f0f0fu;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const uint32_t bits = __byte_perm(biased, 0x64646464u, i == 0 ? 0x4140 : 0x4342);
      uint32_t code;
      asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(code) : "r"(bits), "r"(kBias));
      numbers[i] = f16_product(code, scale);
    }
  }
  return {numbers[0], numbers[1]};
}

// Where the codes and scales of a strip's keys, or of its values, lie in the ring.
template <CacheType kType, int kDim>
struct StripOfCodes {
  static constexpr bool kScaled = has_scales(kType);
  static constexpr int kRow = kDim * code_bits(kType) / 8;    // bytes of a token's codes
  static constexpr int kScaleBytes = kDim / kCacheBlock * 2;  // of a token
  static constexpr int kScalesAt = kStrip * kRow;
  static constexpr int kHalf = kScalesAt + (kScaled ? kStrip * kScaleBytes : 0);
};

// For heads of kDim dimensions, whose keys and values have one type.
template <class T, CacheType kType, int kDim, int kStrips, int kStep>
struct StripsOfCodes : StripOfCodes<kType, kDim>,
                       WarpRing<StripsOfCodes<T, kType, kDim, kStrips, kStep>, T,
                                StripOfCodes<kType, kDim>::kHalf, kStrips, kStep> {
  using Strip = StripOfCodes<kType, kDim>;
  using Ring = WarpRing<StripsOfCodes, T, Strip::kHalf, kStrips, kStep>;
  using Ring::await_keys, Ring::await_values, Ring::barriers, Ring::half, Ring::lane, Ring::page,
      Ring::policy, Ring::run, Ring::token;
  using Ring::Ring;
  using Strip::kHalf, Strip::kRow, Strip::kScaleBytes, Strip::kScaled, Strip::kScalesAt;
  static constexpr bool kCodes = true;
  using Number = Half;

  // Dimension of the first of eight numbers that a lane has of a key: Attended::score().
  static __device__ int dim(int j, int c) { return 64 * (j / 2) + 16 * c + 8 * (j % 2); }

  // Rotates the queries if the cache is rotated. All threads of the block call this.
  template <class Rows>
  static __device__ void rotate_queries(Rows& rows) {
    if constexpr (is_rotated(kType)) {
      for (int i = static_cast<int>(threadIdx.x) / 32; i < kTileHeads; i += kStep / kStrip) {
        HeadNumbers<(kDim + 127) / 128> head;
        head.load(rows.x[i], kDim);
        head.rotate(kDim);
        head.store(rows.x[i], kDim);
      }
      __syncthreads();
    }
  }
  // A warp encodes the new key, another one the new value, and what the codes say replaces them in
  // `rows`. stores: and puts the codes into the cache. If the cache has them already, the warps
  // take them from there. All threads of the block call this.
  template <class Rows>
  __device__ void new_codes(Rows& rows, int position, bool stores) {
    const int warp = static_cast<int>(threadIdx.x) / 32;
    const bool values = warp == 1;
    if (warp < 2) {
      const AttentionLaunch& a = run.a;
      const LayerCache layer(a.cache_types, a.spec.kv_heads, kDim);
      std::byte* const at = coded_page(a, run.pages[position / kPageTokens]);
      const CacheRow row = cache_row(layer, values, at, run.kv_head, position % kPageTokens);
      HeadNumbers<(kDim + 127) / 128> head;
      Number* const numbers = rows.x[values ? Rows::kValue : Rows::kKey];
      if (brings_new(a)) {
        __shared__ __align__(16) uint8_t codes[2][kDim];
        __shared__ uint16_t scales[2][kDim / kCacheBlock];
        head.load(numbers, kDim);
        if (is_rotated(kType)) head.rotate(kDim);
        encode_head(kType, head, kDim, stores ? row : CacheRow{codes[warp], scales[warp]});
      } else {
        HeadCodes<(kDim + 127) / 128> known;
        known.load(kType, row, kDim);
        head = known.numbers(kType, kDim);
      }
      head.store(numbers, kDim);
    }
    __syncthreads();
  }

  using Keys = uint4[kDim / 32][2];
  __device__ Keys& keys(int strip, Keys& to) {
    await_keys(strip);
    const int g = lane() / 4, c = lane() % 4;
    const char* const keys_at = half(strip, 0);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int j = 0; j < kDim / 32; j += 2) {
        two_eights(keys_at, g + 8 * i, dim(j, c), to[j][i], to[j + 1][i]);
      }
    }
    return to;
  }
  using Values = uint4[4];
  __device__ Values& values(int strip, int j, Values& to) {
    await_values(strip, j);
    const int g = lane() / 4, c = lane() % 4, at = token + strip * kStep;
    const char* const values_at = half(strip, 1);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = 2 * c + i % 2 + 8 * (i / 2);
      to[i] = numbers(values_at, row, 64 * j + 8 * g);
      if (at + row >= run.cached_end) to[i] = {0, 0, 0, 0};
    }
    return to;
  }
  __device__ void fetch(int which, int first) const {
    if (first >= run.cached_end) return;
    uint64_t* barrier = which == 0 ? &barriers->keys : &barriers->values;
    const LayerCache layer(run.a.cache_types, run.a.spec.kv_heads, kDim);
    int strips = 0;
#pragma unroll
    for (int i = 0; i < kStrips; ++i) strips += first + i * kStep < run.cached_end;
    // Whole strips: pages have room for them, and a copy has a multiple of 16 bytes.
    barrier_expect_bytes(barrier, strips * kHalf);
#pragma unroll
    for (int i = 0; i < kStrips; ++i) {
      const int at = first + i * kStep;
      if (at >= run.cached_end) continue;
      const CacheRow row =
          cache_row(layer, which == 1, coded_page(run.a, page[i]), run.kv_head, at % kPageTokens);
      bulk_copy(half(i, which), row.codes, kScalesAt, barrier, policy);
      if constexpr (kScaled) {
        bulk_copy(half(i, which) + kScalesAt, row.scales, kStrip * kScaleBytes, barrier, policy);
      }
    }
  }

 private:
  static __device__ uint32_t scale_of(const char* strip, int row, int at) {
    if constexpr (!kScaled) return 0;
    const auto* scales = reinterpret_cast<const uint16_t*>(strip + kScalesAt + row * kScaleBytes);
    return scales[at / kCacheBlock] * 0x10001u;
  }
  static __device__ uint4 eight(uint32_t low, uint32_t high, uint32_t scale) {
    const uint2 a = f16_of_codes<kType>(low, scale), b = f16_of_codes<kType>(high, scale);
    return {a.x, a.y, b.x, b.y};
  }
  // Sixteen numbers of a row from `at` on, a multiple of 16.
  static __device__ void two_eights(const char* strip, int row, int at, uint4& first,
                                    uint4& second) {
    const uint32_t scale = scale_of(strip, row, at);
    constexpr bool kNibbles = kType == CacheType::Q4_0;
    uint4 codes = *reinterpret_cast<const uint4*>(strip + row * kRow +
                                                  (kNibbles ? at / kCacheBlock * 16 : at));
    if constexpr (kNibbles) {
      const int shift = at % kCacheBlock / 16 * 4;
      codes = {codes.x >> shift, codes.y >> shift, codes.z >> shift, codes.w >> shift};
    }
    first = eight(codes.x, codes.y, scale);
    second = eight(codes.z, codes.w, scale);
  }
  // Eight numbers of a row from `at` on, a multiple of 8.
  static __device__ uint4 numbers(const char* strip, int row, int at) {
    const uint32_t scale = scale_of(strip, row, at);
    constexpr bool kNibbles = kType == CacheType::Q4_0;
    uint2 codes = *reinterpret_cast<const uint2*>(
        strip + row * kRow + (kNibbles ? at / kCacheBlock * 16 + at % 16 : at));
    if constexpr (kNibbles) {
      const int shift = at % kCacheBlock / 16 * 4;
      codes = {codes.x >> shift, codes.y >> shift};
    }
    return eight(codes.x, codes.y, scale);
  }
};

}  // namespace skald::cuda
