// out = W · in for up to 256 rows and a quantized W, on Hopper's warpgroup products: weights become
// f16 numbers in registers, activations lie in shared memory as f16 with a power of two for each
// row, sums are float32 (device/gemm_q.cuh). Floors: the weights' bytes at the memory's speed, and
// 2 * outs * ins * rows operations at that of dense f16 products.
//
// Here: what prepares activations, and the choice of how much a block does.
#include <algorithm>

#include "cuda/kernels/built_for.h"
#include "cuda/kernels/device/gemm_q.cuh"
#include "cuda/kernels/device/launch.cuh"
#include "cuda/kernels/device/math.cuh"
#include "cuda/kernels/device/mma.cuh"
#include "cuda/kernels/gemm_q.h"
#include "cuda/kernels/gemm_q_workspace.h"
#include "cuda/kernels/tiles/formats.h"

namespace skald::cuda {
namespace {

constexpr int kMostThreads = 1024;  // of a row
constexpr int kMostBytes = 226 * 1024;
constexpr int kAlign = 1024;

template <class T>
__device__ void load_sixteen(const T* from, float (&x)[16]) {
  const auto* packs = reinterpret_cast<const Pack<T, 8>*>(from);
#pragma unroll
  for (int i = 0; i < 16; ++i) x[i] = to_float(packs[i / 8].x[i % 8]);
}
__device__ inline void load_sixteen(const float* from, float (&x)[16]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float4 four = reinterpret_cast<const float4*>(from)[i];
    x[4 * i] = four.x, x[4 * i + 1] = four.y, x[4 * i + 2] = four.z, x[4 * i + 3] = four.w;
  }
}

// Sixteen columns of a row, times the norm's weight, and the sum of their squares without it.
struct Columns {
  float x[16] = {};
  float squares = 0;

  __device__ void load(const LinearLaunch& a, int row, int64_t col, const float (&weight)[16]) {
    const int64_t at = row * a.ins + col;
    if (a.norm_weight) {
      load_sixteen(static_cast<const float*>(a.in) + at, x);
#pragma unroll
      for (int i = 0; i < 16; ++i) {
        squares += x[i] * x[i];
        x[i] *= weight[i];
      }
    } else if (a.type == DType::BF16) {
      load_sixteen(static_cast<const Bf16*>(a.in) + at, x);
    } else {
      load_sixteen(static_cast<const Half*>(a.in) + at, x);
    }
  }
  __device__ float most() const {
    float most = 0;
#pragma unroll
    for (int i = 0; i < 16; ++i) most = fmaxf(most, fabsf(x[i]));
    return most;
  }
};

// The sum and the maximum of a block's threads, for all of them, in the same order for any number
// of rows. What both need of each other's time they share.
struct SumMax {
  float sum, most;
  __device__ void over_warp() {
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) {
      sum += __shfl_xor_sync(~0u, sum, offset);
      most = fmaxf(most, __shfl_xor_sync(~0u, most, offset));
    }
  }
  __device__ void over_block() {
    __shared__ float2 warps[kMostThreads / 32];
    over_warp();
    const unsigned lane = threadIdx.x % 32;
    if (lane == 0) warps[threadIdx.x / 32] = {sum, most};
    __syncthreads();
    const float2 mine = lane < blockDim.x / 32 ? warps[lane] : float2{0, 0};
    sum = mine.x, most = mine.y;
    over_warp();
  }
};

// One block a row; rows beyond the step's become zeros. A thread has 16 columns, of very long rows
// more, which it reads twice.
__global__ void __launch_bounds__(kMostThreads)
    gemm_q_prepare(__grid_constant__ const LinearLaunch a, __grid_constant__ const GemmQPlan plan,
                   float odd) {
  const int row = static_cast<int>(blockIdx.x), tile_rows = plan.tile_rows;
  const int64_t cols = plan.cols;
  char* const values = static_cast<char*>(a.workspace);
  float* const scales = reinterpret_cast<float*>(values + plan.scales_at);
  const int tile = row / tile_rows, tile_row = row % tile_rows;
  const int64_t first = threadIdx.x * 16, step = blockDim.x * 16;
  const int64_t ins = row < a.rows ? a.ins : 0;
  let_next_kernel_start();
  float weight[16] = {};
  if (a.norm_weight && first < ins) load_sixteen(a.norm_weight + first, weight);
  wait_for_kernel_ahead();
  Columns mine;
  if (first < ins) mine.load(a, row, first, weight);
  float most = mine.most(), squares = mine.squares;
  for (int64_t col = first + step; col < ins; col += step) {
    if (a.norm_weight) load_sixteen(a.norm_weight + col, weight);
    Columns more;
    more.load(a, row, col, weight);
    most = fmaxf(most, more.most());
    squares += more.squares;
  }
  SumMax all = {squares, most};
  all.over_block();
  most = all.most;
  const float norm =
      a.norm_weight ? rsqrtf(all.sum / static_cast<float>(a.ins) + a.norm_eps) : 1.0f;
  // 2^e <= most < 2^(e + 1) becomes 2^14. What is smaller than 2^-111 is zero. Infinity and NaN
  // stay what they are and are found among the logits.
  most *= norm;
  const int exponent = min(max(static_cast<int>(__float_as_uint(most) >> 23), 14 + 2), 254);
  const float up = __uint_as_float(static_cast<uint32_t>(254 + 14 - exponent) << 23);
  const float down = __uint_as_float(static_cast<uint32_t>(exponent - 14) << 23);
  for (int64_t col = first; col < cols; col += step) {
    if (col > first) {
      mine = {};
      if (a.norm_weight && col < ins) load_sixteen(a.norm_weight + col, weight);
      if (col < ins) mine.load(a, row, col, weight);
    }
    uint32_t pairs[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float factor = i % 2 ? up / odd : up;  // not times norm, which may be too much
      pairs[i] = pack(Half(), mine.x[2 * i] * norm * factor, mine.x[2 * i + 1] * norm * factor);
    }
    char* to = values + ((tile * (cols / 64) + col / 64) * tile_rows + tile_row) * 128;
    const int unit = static_cast<int>(col % 64) / 8;
    *reinterpret_cast<uint4*>(to + ((unit ^ tile_row % 8) * 16)) = {pairs[0], pairs[2], pairs[4],
                                                                    pairs[6]};
    *reinterpret_cast<uint4*>(to + (((unit + 1) ^ tile_row % 8) * 16)) = {pairs[1], pairs[3],
                                                                          pairs[5], pairs[7]};
    float sum = 0, odd_sum = 0;
#pragma unroll
    for (int i = 0; i < 8; i += 2) {
      sum += low_half(pairs[i]) + high_half(pairs[i]);
      odd_sum += low_half(pairs[i + 1]) + high_half(pairs[i + 1]);
    }
    sum += odd_sum * odd;
    // Sixteen threads have 256 columns, so all of them are here.
    sum = (sum + __shfl_xor_sync(0xffffu << (threadIdx.x & 16), sum, 1)) * kHalfSumUnit;
    if (threadIdx.x % 2 == 0) {
      char* row_sums = values + plan.sums_at +
                       ((tile * (cols / 256) + col / 256) * tile_rows + tile_row) * kRowSumBytes +
                       col % 256 / 32 * 2;
      const int first_unit = tile_row / 4 % 2 * 16;
      const __half next = __float2half_rn(sum);
      *reinterpret_cast<__half*>(row_sums + first_unit) = next;
      *reinterpret_cast<__half*>(row_sums + (first_unit ^ 16)) =
          __float2half_rn(sum - __half2float(next));
    }
  }
  if (threadIdx.x == 0) scales[row] = row < a.rows ? down : 0;
}

// What fits beside the ring of activations; false where two slots do not.
template <class F>
bool fill(GemmQPlan& plan) {
  const int chunk = std::min(kStepCols<F> * plan.tile_rows * 2, 16384);
  plan.warps = (plan.tile_groups + 3) / 4 * 4;
  constexpr int kBytes = kStepRecords<F> * F::kRecordBytes;
  // A record that is no multiple of 128 bytes begins anywhere in a line.
  plan.pitch = (kBytes + (F::kRecordBytes % 128 ? 127 + 128 - 16 : 127)) / 128 * 128;
  plan.slot_sums_at = (plan.tile_groups * plan.pitch + 255) / 256 * 256;
  plan.slot_bytes = plan.slot_sums_at + (kSumsApart<F> ? plan.tile_rows * kRowSumBytes : 0);
  plan.activation_slots = std::max(3, 49152 / chunk);
  const int left = kMostBytes - kAlign - plan.activation_slots * chunk;
  plan.weight_slots = std::min(left / plan.slot_bytes, 16);
  const int rings = plan.activation_slots * chunk + plan.weight_slots * plan.slot_bytes;
  const int sums = plan.tile_rows * (plan.tile_groups * tiles::kRows + 4) * 4;
  plan.bytes = std::max(rings, sums) + kAlign;
  return plan.weight_slots >= 2 && plan.bytes <= kMostBytes;
}

// Cycles that a product takes: roughly, to compare plans. A quarter of a multiprocessor decodes a
// part of a tile in some 200 cycles, of which products take more than half away from others; one
// warp alone cannot do both at once.
template <class F>
double cost(const GemmQPlan& plan, int multiprocessors) {
  // A cluster lies in a group of 16 multiprocessors, or a few more.
  const int at_once =
      plan.splits == 1 ? multiprocessors : std::max(1, multiprocessors / 16) * (16 / plan.splits);
  const int tiles = (plan.groups + plan.tile_groups - 1) / plan.tile_groups * plan.row_tiles;
  const int waves = (tiles + at_once - 1) / at_once;
  const double steps = (plan.steps + plan.splits - 1) / plan.splits;
  const double products = plan.tile_rows * 4.0, part = std::max(200 + 0.7 * products, products);
  const double loop = steps * kStepParts<F> * std::max(part * (plan.warps / 4), part + 150);
  const double memory = plan.tile_groups * steps * kStepRecords<F> * F::kRecordBytes / 17;
  const double sums = plan.tile_rows * plan.tile_groups * 1.0;
  return waves *
         (std::max(loop, memory) + 3000 + sums + (plan.splits > 1 ? 1500 + 400 * plan.splits : 0));
}

template <class F>
GemmQPlan make_plan(const LinearLaunch& a, int multiprocessors) {
  GemmQPlan plan = {}, best = {};
  plan.tile_rows = gemm_q_tile_rows(a.rows);
  plan.row_tiles = (a.rows + plan.tile_rows - 1) / plan.tile_rows;
  plan.groups = static_cast<int>((a.outs + tiles::kRows - 1) / tiles::kRows);
  plan.records = static_cast<int>((a.ins + F::kRecordCols - 1) / F::kRecordCols);
  plan.steps = (plan.records + kStepRecords<F> - 1) / kStepRecords<F>;
  plan.cols = gemm_q_padded_cols(a.ins);
  plan.sums_at = plan.cols * plan.row_tiles * plan.tile_rows * 2;
  plan.scales_at = plan.sums_at + plan.cols / 256 * plan.row_tiles * plan.tile_rows * kRowSumBytes;
  double least = 0;
  for (plan.splits = 1; plan.splits <= std::min(8, plan.steps); ++plan.splits) {
    for (plan.tile_groups = 1; plan.tile_groups <= kMostGroups; ++plan.tile_groups) {
      if (!fill<F>(plan)) continue;
      const double cycles = cost<F>(plan, multiprocessors);
      if (best.bytes > 0 && cycles >= least) continue;
      best = plan;
      least = cycles;
    }
  }
  return best;
}

}  // namespace

bool supports_gemm_q_sm90(const LinearLaunch& a, int compute_capability) {
  if (!kHasSm90a || compute_capability != 90 || a.rows > kGemmQMostRows) return false;
  if (info(a.format).block_elems == 1) return false;
  if (a.type != DType::BF16 && a.type != DType::F16) return false;
  return a.epilogue != Epilogue::Gated || a.outs % 2 == 0;
}

bool gemm_q_shares_activations(DType format, DType other) {
  const auto odd = [](DType type) {
    int columns = 0;
    tiles::dispatch(type, [&](auto f) { columns = kOddColumns<decltype(f)>; });
    return columns;
  };
  return odd(format) == odd(other);
}

void launch_gemm_q_sm90(const LinearLaunch& a, int multiprocessors, Stream stream) {
  check(a.workspace, "gemm_q_sm90 has a workspace");
  GemmQPlan plan = {};
  float odd = 1;
  tiles::dispatch(a.format, [&](auto f) {
    plan = make_plan<decltype(f)>(a, std::max(8, static_cast<int>(multiprocessors * a.share)));
    odd = kOddColumns<decltype(f)>;
  });
  check(plan.bytes > 0, "a product that fits no block");
  const int row_threads = static_cast<int>(std::min<int64_t>(plan.cols / 16, kMostThreads));
  if (!a.next_piece) {
    launch_kernel(
        gemm_q_prepare,
        {dim3(plan.row_tiles * plan.tile_rows), (row_threads + 31) / 32 * 32, 0, a.dependent},
        stream, a, plan, odd);
  }
  if (plan.tile_rows == 32) {
    launch_gemm_q_32(a, plan, stream);
  } else if (plan.tile_rows == 64) {
    launch_gemm_q_64(a, plan, stream);
  } else {
    launch_gemm_q_128(a, plan, stream);
  }
}

}  // namespace skald::cuda
