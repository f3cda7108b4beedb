// experts_plain: the reference. As in gemv_plain, a warp multiplies one weight row (of a gated
// pair: two, gate and up), here for up to kPlainRows places of one expert.
#include "cuda/kernels/device/gemv_plain.cuh"
#include "cuda/kernels/experts/experts_tile.cuh"
#include "cuda/kernels/tiles/formats.h"
#include "engine/base/check.h"

namespace skald::cuda {
namespace {

template <class T>
struct PlainWeight {
  const T* weight;
  int64_t ins;
  __device__ PlainWeight(const ExpertsLaunch& a, int expert)
      : weight(reinterpret_cast<const T*>(static_cast<const char*>(a.weight) + expert * a.stride)),
        ins(a.ins) {}
  __device__ float operator()(int64_t out, int64_t i) const {
    return to_float(weight[out * ins + i]);
  }
};

template <class F>
struct TileWeight {
  const std::byte* tiles;
  int64_t records;
  __device__ TileWeight(const ExpertsLaunch& a, int expert)
      : tiles(static_cast<const std::byte*>(a.weight) + expert * a.stride),
        records((a.ins + F::kRecordCols - 1) / F::kRecordCols) {}
  __device__ float operator()(int64_t out, int64_t i) const {
    const int64_t record = out / tiles::kRows * records + i / F::kRecordCols;
    return F::value(tiles + record * F::kRecordBytes, static_cast<int>(out % tiles::kRows),
                    static_cast<int>(i % F::kRecordCols));
  }
};

template <class W>
__device__ void sums_of(const ExpertsLaunch& a, const W& weight, int64_t out,
                        const int64_t (&in)[kPlainRows], int rows, float (&sums)[kPlainRows]) {
  for (float& sum : sums) sum = 0;
  for (int64_t i = threadIdx.x % 32; i < a.ins; i += 32) {
    const float w = weight(out, i);
#pragma unroll
    for (int r = 0; r < kPlainRows; ++r) {
      if (r < rows) sums[r] = fmaf(w, load_number(a.type, a.in, in[r] + i), sums[r]);
    }
  }
  for (float& sum : sums) sum = warp_sum(sum);
}

template <class W>
__global__ void experts_plain(ExpertsLaunch a) {
  let_next_kernel_start();
  wait_for_kernel_ahead();
  const ExpertTile tile = find_tile<kPlainRows>(a.routing, static_cast<int>(blockIdx.x));
  const bool pairs = a.epilogue == Epilogue::Gated;
  const int64_t outs = pairs ? a.outs / 2 : a.outs;
  const int64_t out = int64_t{blockIdx.y} * kPlainWarps + threadIdx.x / 32;
  if (tile.rows == 0 || out >= outs) return;
  int64_t in[kPlainRows] = {};
  for (int r = 0; r < tile.rows; ++r) in[r] = input_row(a, tile.first + r) * a.ins;
  const W weight(a, tile.expert);
  float sums[kPlainRows], ups[kPlainRows];
  sums_of(a, weight, pairs ? 2 * out : out, in, tile.rows, sums);
  if (pairs) sums_of(a, weight, 2 * out + 1, in, tile.rows, ups);
  if (threadIdx.x % 32 != 0) return;
  for (int r = 0; r < tile.rows; ++r) {
    const int64_t at = (tile.first + r) * a.out_stride + out;
    if (a.bias) {
      const float* bias = a.bias + tile.expert * a.outs;
      sums[r] += bias[pairs ? 2 * out : out];
      if (pairs) ups[r] += bias[2 * out + 1];
    }
    if (a.epilogue == Epilogue::Floats) {
      static_cast<float*>(a.out)[at] = sums[r];
    } else {
      const float value = pairs         ? gated(sums[r], ups[r], a.activation)
                          : a.activates ? activate(sums[r], a.activation)
                                        : sums[r];
      store_numbers(a.type, a.out, at, Pack<float, 1>{value});
    }
  }
}

// The most results of a place that one grid can compute.
constexpr int64_t kMostOuts = int64_t{65535} * kPlainWarps;

template <class W>
void launch(const ExpertsLaunch& a, Stream stream) {
  const int64_t outs = a.epilogue == Epilogue::Gated ? a.outs / 2 : a.outs;
  check(outs <= kMostOuts, "an expert's matrix has at most a grid's rows");
  const dim3 blocks(static_cast<unsigned>(expert_tiles(a.routing, kPlainRows)),
                    static_cast<unsigned>((outs + kPlainWarps - 1) / kPlainWarps));
  launch_kernel(experts_plain<W>, {blocks, kPlainWarps * 32, 0, a.dependent}, stream, a);
}

}  // namespace

void launch_experts_plain(const ExpertsLaunch& a, Stream stream) {
  if (block_elems(a.format) > 1) {
    tiles::dispatch(a.format,
                    [&](auto format) { launch<TileWeight<decltype(format)>>(a, stream); });
    return;
  }
  dispatch(a.type, [&](auto type) { launch<PlainWeight<decltype(type)>>(a, stream); });
}

template <>
void launch_experts<kernel_id("experts_plain")>(const ExpertsLaunch& launch, Stream stream) {
  launch_experts_plain(launch, stream);
}

}  // namespace skald::cuda
