// Reads 0.3 to 1.1 bytes and writes 2 for each weight, at the memory's speed. One warp 16 rows x
// 128 columns, as its lanes hold them for products: four columns of each 16, so that two lanes
// together make 16 bytes of each half of 32 columns.
#include "cuda/kernels/expand_q.h"

#include "cuda/kernels/device/lane_mins.cuh"
#include "cuda/kernels/device/launch.cuh"

namespace skald::cuda {
namespace {

constexpr int kWarps = 8;

// mma.cuh's pack() asks for sm_80.
__device__ inline uint32_t two(Half, float low, float high) {
  const __half2 both = __floats2half2_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&both);
}
__device__ inline uint32_t two(Bf16, float low, float high) {
  return uint32_t{__bfloat16_as_ushort(__float2bfloat16_rn(low))} |
         uint32_t{__bfloat16_as_ushort(__float2bfloat16_rn(high))} << 16;
}

// What stands in a lane's part, in float32 with decode()'s operations in its order.
template <class F>
struct LaneNumbers {
  LanePart<F> part;
  struct NoMins {};
  std::conditional_t<F::kHasMin, LaneMins<typename F::Scales>, NoMins> mins;

  __device__ void load(const char* record, int i, int lane) {
    part.load(record, i, lane);
    if constexpr (F::kHasMin) {
      mins.load(record + F::kScalesAt + i * F::Scales::kPartBytes, lane);
    }
  }

  // Columns 16 * m + 4 * (lane % 4) and the next three, of a unit, row lane / 4 + 8 * half.
  template <class T>
  __device__ uint2 four(T, int unit, int half, int m) const {
    const int b = F::Scales::kCols == 16 ? unit * 2 + m : unit;
    const float scale = __fmul_rn(part.scales.row(half), part.scales.scale(b, half));
    float less = 0;
    if constexpr (F::kHasMin) less = __fmul_rn(part.scales.row_min(half), mins.min(b, half));
    uint32_t pairs[2];
    part.codes.pairs(unit, half, m, pairs[0], pairs[1]);
    const auto number = [&](uint32_t code, int p) {
      const int number = static_cast<int>(p ? code / F::Codes::kOddScale : code) - F::kOffset;
      const float weight = __fmul_rn(scale, static_cast<float>(number));
      return F::kHasMin ? __fsub_rn(weight, less) : weight;
    };
    return {two(T(), number(pairs[0] & 0xffff, 0), number(pairs[0] >> 16, 0)),
            two(T(), number(pairs[1] & 0xffff, 1), number(pairs[1] >> 16, 1))};
  }
};

template <class F, class T>
__global__ void __launch_bounds__(kWarps * 32) expand_q(__grid_constant__ const ExpandLaunch a) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int parts = static_cast<int>((a.ins + F::kRecordCols - 1) / F::kRecordCols) * F::kParts;
  const int64_t i = int64_t{blockIdx.x} * kWarps + threadIdx.x / 32;
  const int64_t group = i / parts, first = group * tiles::kRows;
  const int part = static_cast<int>(i - group * parts);
  let_next_kernel_start();
  if (first >= a.rows) return;
  const char* record =
      static_cast<const char*>(a.tiles) +
      ((a.first / tiles::kRows + group) * (parts / F::kParts) + part / F::kParts) * F::kRecordBytes;
  LaneNumbers<F> numbers;
  numbers.load(record, part % F::kParts, lane);
  wait_for_kernel_ahead();
  const bool odd = lane % 2 != 0;
#pragma unroll
  for (int unit = 0; unit < tiles::kUnits; ++unit) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      // Lane 2 i of a row ends with columns 8 i to 8 i + 7, lane 2 i + 1 with those 16 further.
      const uint2 near = numbers.four(T(), unit, half, 0), far = numbers.four(T(), unit, half, 1);
      const uint2 send = odd ? near : far;
      const uint2 got = {__shfl_xor_sync(~0u, send.x, 1), __shfl_xor_sync(~0u, send.y, 1)};
      const uint4 eight =
          odd ? uint4{got.x, got.y, far.x, far.y} : uint4{near.x, near.y, got.x, got.y};
      const int64_t row = first + lane / 4 + 8 * half;
      const int64_t col = part * tiles::kPartCols + unit * 32 + (odd ? 16 : 0) + lane % 4 / 2 * 8;
      if (row < a.rows && col < a.ins) {
        *reinterpret_cast<uint4*>(static_cast<T*>(a.out) + row * a.ins + col) = eight;
      }
    }
  }
}

template <class F, class T>
void launch(const ExpandLaunch& a, Stream stream) {
  const int64_t groups = (a.rows + tiles::kRows - 1) / tiles::kRows;
  const int64_t warps = groups * ((a.ins + F::kRecordCols - 1) / F::kRecordCols * F::kParts);
  launch_kernel(
      expand_q<F, T>,
      {dim3(static_cast<unsigned>((warps + kWarps - 1) / kWarps)), kWarps * 32, 0, a.dependent},
      stream, a);
}

// A warp has 16 rows.
template <class F>
__global__ void __launch_bounds__(kWarps * 32)
    longest_row(__grid_constant__ const LongestRowLaunch a) {
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
  for (float sum : squares) {
    for (int offset = 1; offset < 4; offset *= 2) sum += __shfl_xor_sync(~0u, sum, offset);
    // Of numbers that are not negative, larger ones have larger bits, and NaN the largest.
    if (lane % 4 == 0) atomicMax(reinterpret_cast<int*>(a.longest), __float_as_int(sqrtf(sum)));
  }
}

}  // namespace

void launch_longest_row(const LongestRowLaunch& a, Stream stream) {
  const bool known = tiles::dispatch(a.format, [&](auto f) {
    const int64_t groups = (a.outs + tiles::kRows - 1) / tiles::kRows;
    launch_kernel(longest_row<decltype(f)>,
                  {dim3(static_cast<unsigned>((groups + kWarps - 1) / kWarps)), kWarps * 32},
                  stream, a);
  });
  check(known, "rows of block formats are measured");
}

void launch_expand_q(const ExpandLaunch& a, Stream stream) {
  check(a.first % tiles::kRows == 0, "rows to expand start with a group of tiles");
  check(a.type == DType::F16 || a.type == DType::BF16, "weights expand to 16 bits");
  if (a.rows == 0) return;
  const bool known = tiles::dispatch(a.format, [&](auto f) {
    using F = decltype(f);
    a.type == DType::F16 ? launch<F, Half>(a, stream) : launch<F, Bf16>(a, stream);
  });
  check(known, "only block formats are expanded");
}

}  // namespace skald::cuda
