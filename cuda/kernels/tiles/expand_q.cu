// Writes rows of a quantized matrix as 16-bit numbers, for cuBLAS. Reads 0.3 to 1.1 bytes and
// writes 2 bytes per weight, at the memory's speed. A warp expands one part (16 rows x 128 columns)
// in the lane order of products, in which a lane has four columns of each 16. So two lanes together
// make the 16 bytes of one store.
#include "cuda/kernels/tiles/expand_q.h"

#include "cuda/kernels/device/launch.cuh"
#include "cuda/kernels/tiles/lane_numbers.cuh"
#include "engine/base/check.h"

namespace skald::cuda {
namespace {

constexpr int kWarps = 8;

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
      // After the exchange the even lane 2 i of a row has columns 8 i to 8 i + 7, and the odd lane
      // 2 i + 1 has the eight columns that lie 16 further.
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

}  // namespace

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
