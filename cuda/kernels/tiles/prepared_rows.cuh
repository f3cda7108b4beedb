// Writes activations in the form that gemm_q_sm90 multiplies (prepared_rows.h): f16 with a power of
// two for each row, and sums of 32 or 16 columns. gemm_q uses it, and kernels that store their
// results for gemm_q; place_rows uses its parts for experts_many_sm90.
#pragma once

#include "cuda/kernels/device/mma.cuh"
#include "cuda/kernels/prepared_rows.h"
#include "cuda/kernels/tiles/lane_weights.cuh"

namespace skald::cuda {

// The powers of two for a row whose largest magnitude is `most`: `most` times `up` is at least 2^14
// and below 2^15. A `most` below 2^-111 gets the powers of 2^-111. Infinity and NaN stay as they
// are; the check of the logits finds them.
struct RowScale {
  float up, down;
  __device__ explicit RowScale(float most) {
    const int exponent = min(max(static_cast<int>(__float_as_uint(most) >> 23), 14 + 2), 254);
    up = __uint_as_float(static_cast<uint32_t>(254 + 14 - exponent) << 23);
    down = __uint_as_float(static_cast<uint32_t>(exponent - 14) << 23);
  }
};

// Sixteen columns of a row in f16. Columns 2 and 3 of each four (odd pairs) are divided by `odd`.
struct Sixteen {
  uint32_t pairs[8];
  __device__ Sixteen(const float (&x)[16], float up, float odd) {
    const float odd_up = up / odd;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float factor = i % 2 ? odd_up : up;
      pairs[i] = pack(Half(), x[2 * i] * factor, x[2 * i + 1] * factor);
    }
  }
  __device__ float sum(float odd) const {
    float even_sum = 0, odd_sum = 0;
#pragma unroll
    for (int i = 0; i < 8; i += 2) {
      even_sum += low_half(pairs[i]) + high_half(pairs[i]);
      odd_sum += low_half(pairs[i + 1]) + high_half(pairs[i + 1]);
    }
    return even_sum + odd_sum * odd;
  }
};

// power / by for powers of two: exact, and one instruction where a division takes ten.
__device__ inline float quotient_of_powers(float power, float by) {
  constexpr int kOne = 0x3f800000;
  return __int_as_float(__float_as_int(power) - __float_as_int(by) + kOne);
}

// Stores the sum of 32 columns, the i-th of eight, in a row's kRowSumBytes: the nearest f16, and a
// second f16 for the difference.
__device__ inline void store_sum(char* sums, float sum, unsigned row, unsigned i) {
  sum *= kHalfSumUnit;
  char* to = sums + i * 2;
  const unsigned first_unit = row / 4 % 2 * 16;
  const __half next = __float2half_rn(sum);
  *reinterpret_cast<__half*>(to + first_unit) = next;
  *reinterpret_cast<__half*>(to + (first_unit ^ 16)) = __float2half_rn(sum - __half2float(next));
}

// One tile of `tile_rows` activation rows in the workspace: its numbers and its sums.
struct RowTile {
  char *values, *sums;
  unsigned tile_rows;

  __device__ RowTile(char* memory, const PreparedLayout& at, int rows, int64_t tile)
      : values(memory + tile * at.cols * rows * 2),
        sums(memory + at.sums + tile * (at.cols / 256) * rows * kRowSumBytes),
        tile_rows(rows) {}

  __device__ void put(const Sixteen& x, unsigned row, unsigned col) const {
    char* to = values + (col / 64 * tile_rows + row) * 128;
    const unsigned unit = col % 64 / 8;
    *reinterpret_cast<uint4*>(to + ((unit ^ row % 8) * 16)) = {x.pairs[0], x.pairs[2], x.pairs[4],
                                                               x.pairs[6]};
    *reinterpret_cast<uint4*>(to + (((unit + 1) ^ row % 8) * 16)) = {x.pairs[1], x.pairs[3],
                                                                     x.pairs[5], x.pairs[7]};
  }

  // Stores columns `col`, an even number, and col + 1.
  __device__ void put_pair(uint32_t pair, unsigned row, unsigned col) const {
    char* to = values + ((col / 64 * tile_rows + row) * 128 + col % 16 / 4 * 4);
    const unsigned unit = col % 64 / 16 * 2 + col % 4 / 2;
    *reinterpret_cast<uint32_t*>(to + ((unit ^ row % 8) * 16)) = pair;
  }
  // Stores four columns, from a multiple of four on.
  __device__ void put_four(const uint32_t (&pairs)[2], unsigned row, unsigned col) const {
    put_pair(pairs[0], row, col);
    put_pair(pairs[1], row, col + 2);
  }
  // Stores eight columns, from a multiple of eight on.
  __device__ void put_eight(const uint32_t (&pairs)[4], unsigned row, unsigned col) const {
    char* to = values + ((col / 64 * tile_rows + row) * 128 + col % 16);
    const unsigned unit = col % 64 / 16 * 2;
    *reinterpret_cast<uint2*>(to + ((unit ^ row % 8) * 16)) = {pairs[0], pairs[2]};
    *reinterpret_cast<uint2*>(to + (((unit + 1) ^ row % 8) * 16)) = {pairs[1], pairs[3]};
  }

  // Stores the sum of the 32 columns from `col` on.
  __device__ void put_sum(float sum, unsigned row, unsigned col) const {
    store_sum(sums + (col / 256 * tile_rows + row) * kRowSumBytes, sum, row, col % 256 / 32);
  }
  // Stores the sum of the 16 columns from `col` on. Both halves of 32 columns are multiplied by the
  // same minimum, so their two sums may lie where put_sum() stores the f16 and the difference.
  __device__ void put_half_sum(float sum, unsigned row, unsigned col) const {
    char* to = sums + ((col / 256 * tile_rows + row) * kRowSumBytes + col % 256 / 32 * 2);
    const unsigned unit = row / 4 % 2 ^ col % 32 / 16;
    *reinterpret_cast<__half*>(to + unit * 16) = __float2half_rn(sum * kHalfSumUnit);
  }
};

// A tile of activations that a kernel stores for the next product. The lanes that hold 16 columns
// together call put(), which returns the sum of the lane's own columns; one of these lanes calls
// put_sum() with the sum of all 16.
struct PreparedTile {
  RowTile tile;
  float *scales, up, odd;

  __device__ PreparedTile(const PreparedRows& a, int index)
      : tile(a.memory, a.at, a.tile_rows, index),
        scales(reinterpret_cast<float*>(a.memory + a.at.scales) + index * a.tile_rows),
        up(a.up),
        odd(a.odd) {}

  // Stores columns `col`, an even number, and col + 1.
  __device__ float put(float first, float second, unsigned row, unsigned col) const {
    const float by = col % 4 ? quotient_of_powers(up, odd) : up;
    const uint32_t pair = pack(Half(), first * by, second * by);
    tile.put_pair(pair, row, col);
    return (low_half(pair) + high_half(pair)) * (col % 4 ? odd : 1);
  }
  __device__ float put(const float (&x)[2], unsigned row, unsigned col) const {
    return put(x[0], x[1], row, col);
  }
  // Stores eight columns, from a multiple of eight on.
  __device__ float put(const float (&x)[8], unsigned row, unsigned col) const {
    const float odd_up = quotient_of_powers(up, odd);
    uint32_t pairs[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float by = i % 2 ? odd_up : up;
      pairs[i] = pack(Half(), x[2 * i] * by, x[2 * i + 1] * by);
    }
    tile.put_eight(pairs, row, col);
    return (low_half(pairs[0]) + high_half(pairs[0])) + (low_half(pairs[2]) + high_half(pairs[2])) +
           ((low_half(pairs[1]) + high_half(pairs[1])) +
            (low_half(pairs[3]) + high_half(pairs[3]))) *
               odd;
  }
  // Call it once for each 16 columns. With column 0 it also stores the factor of the row's results.
  __device__ void put_sum(float sum, unsigned row, unsigned col) const {
    tile.put_half_sum(sum, row, col);
    if (col == 0) scales[row] = quotient_of_powers(1, up);
  }
};

}  // namespace skald::cuda
