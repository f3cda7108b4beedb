// Computes the lengths of a quantized matrix's rows (row_lengths.h). Reads the matrix once, at
// loading.
#include "cuda/kernels/tiles/row_lengths.h"

#include <cmath>

#include "cuda/kernels/device/launch.cuh"
#include "cuda/kernels/tiles/lane_numbers.cuh"
#include "engine/base/check.h"

namespace skald::cuda {
namespace {

constexpr int kWarps = 8;

// One warp measures 16 rows.
template <class F>
__global__ void __launch_bounds__(kWarps * 32)
    row_lengths(__grid_constant__ const RowLengthsLaunch a) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int records = static_cast<int>((a.ins + F::kRecordCols - 1) / F::kRecordCols);
  const int64_t group = int64_t{blockIdx.x} * kWarps + threadIdx.x / 32;
  if (group * tiles::kRows >= a.outs) return;
  float squares[2] = {};
  for (int part = 0; part < records * F::kParts; ++part) {
    LaneNumbers<F> numbers;
    numbers.load(
        static_cast<const char*>(a.tiles) + (group * records + part / F::kParts) * F::kRecordBytes,
        part % F::kParts, lane);
#pragma unroll
    for (int i = 0; i < 4 * tiles::kUnits; ++i) {
      const int unit = i / 4, half = i / 2 % 2, m = i % 2;
      const int64_t col = part * tiles::kPartCols + unit * 32 + m * 16 + lane % 4 * 4;
      if (col >= a.ins) continue;
      const uint2 four = numbers.four(Bf16(), unit, half, m);
      const float4 w = *reinterpret_cast<const float4*>(a.weight + col);
      const float x[4] = {
          __uint_as_float(four.x << 16) * w.x, __uint_as_float(four.x & 0xffff0000) * w.y,
          __uint_as_float(four.y << 16) * w.z, __uint_as_float(four.y & 0xffff0000) * w.w};
      for (float number : x) squares[half] += number * number;
    }
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float sum = squares[half];
    for (int offset = 1; offset < 4; offset *= 2) sum += __shfl_xor_sync(~0u, sum, offset);
    const int64_t row = group * tiles::kRows + half * 8 + lane / 4;
    const int exponent = static_cast<int>(__float_as_uint(sqrtf(sum)) >> 23) & 255;
    if (lane % 4 == 0 && row < a.outs) atomicAdd(a.lengths + exponent, 1);
  }
}

}  // namespace

void launch_row_lengths(const RowLengthsLaunch& a, Stream stream) {
  const bool known = tiles::dispatch(a.format, [&](auto f) {
    const int64_t groups = (a.outs + tiles::kRows - 1) / tiles::kRows;
    launch_kernel(row_lengths<decltype(f)>,
                  {dim3(static_cast<unsigned>((groups + kWarps - 1) / kWarps)), kWarps * 32},
                  stream, a);
  });
  check(known, "rows of block formats are measured");
}

float longest_row(const RowLengths& lengths) {
  constexpr int kMostApart = 4, kInfinite = 255;
  int64_t rows = 0;
  int longest = 0;
  for (int i = 0; i <= kInfinite; ++i) {
    if (lengths[i] > 0) longest = i;
    rows += lengths[i];
  }
  int usual = 0;  // exponent of the median
  for (int64_t shorter = lengths[0]; 2 * shorter < rows; shorter += lengths[usual]) ++usual;
  if (longest == kInfinite || longest - usual > kMostApart) return kNoBound;
  return std::ldexp(1.0f, longest + 1 - 127);
}

}  // namespace skald::cuda
