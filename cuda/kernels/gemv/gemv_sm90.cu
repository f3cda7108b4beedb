// out = W · in for 2 to 16 rows and 16-bit weights. The floor is the memory's speed: outs * ins * 2
// bytes, read once. gemv_row_sm90.cu has the kernel for one row.
//
// One block per multiprocessor. A producer warp fetches weights into a ring (weight_ring.cuh).
// Eight consumer warps take turns at the 64-column steps of a tile and multiply on the tensor
// cores. The activation rows are the large operand and the 8 weight rows the small one, so up to 8
// rows cost no more than one. After each group of 8 weight rows the partial sums of the warps are
// added in shared memory. The order of every sum is fixed, and the same for any number of rows,
// also for one. Which block computes which group varies, and changes no result.
//
// The 16 rows of the large operand are 8 activation rows twice: at the columns of a step's first
// half and at those of its second half. Only those results count whose weights and activations have
// the same columns.
#include <algorithm>

#include "cuda/kernels/device/all_shared.cuh"
#include "cuda/kernels/device/launch.cuh"
#include "cuda/kernels/device/math.cuh"
#include "cuda/kernels/device/mma.cuh"
#include "cuda/kernels/device/number.cuh"
#include "cuda/kernels/device/ptx.cuh"
#include "cuda/kernels/device/shares.cuh"
#include "cuda/kernels/gemv/activations.cuh"
#include "cuda/kernels/gemv/gemv_layout.h"
#include "cuda/kernels/gemv/gemv_row_sm90.h"
#include "cuda/kernels/gemv/weight_ring.cuh"
#include "cuda/kernels/linear.h"
#include "engine/base/check.h"

namespace skald::cuda {
namespace {

constexpr int kThreads = kConsumers + 32;

using gemv_rows::Layout;

// A thread's one result of a group of 8 weight rows. The bias and the old value of the output are
// loaded while the products are computed.
struct Finish {
  int row, weight_row;  // row of the step; row of the group (Gated: the gate's)
  bool mine;
  float bias[2] = {0, 0}, old = 0;

  __device__ Finish(const LinearLaunch& a, int64_t first) {
    const int thread = static_cast<int>(threadIdx.x);
    const bool gated = a.epilogue == Epilogue::Gated;
    const int results = gated ? kTileRows / 2 : kTileRows;
    row = thread / results;
    weight_row = thread % results * (gated ? 2 : 1);
    mine = row < a.rows && first + weight_row < a.outs;
    if (!mine) return;
    if (a.bias) {
      bias[0] = a.bias[first + weight_row];
      if (gated) bias[1] = a.bias[first + weight_row + 1];
    }
    if (a.epilogue == Epilogue::AddTo) {
      old = __ldcg(static_cast<const float*>(a.out) + row * a.out_stride + first + weight_row);
    }
  }

  // Adds up the warps' partial sums and writes the result.
  template <class T>
  __device__ void write(const LinearLaunch& a, int64_t first, const float* partials,
                        int rows) const {
    if (!mine) return;
    const auto sum_of = [&](int i) {
      float sum = bias[i];
#pragma unroll
      for (int warp = 0; warp < kConsumerWarps; ++warp) {
        sum += partials[(warp * rows + row) * kTileRows + weight_row + i];
      }
      return sum;
    };
    if (a.epilogue == Epilogue::Gated) {
      const float value = activate_briefly(sum_of(0), a.activation) * sum_of(1);
      static_cast<T*>(a.out)[row * a.out_stride + (first + weight_row) / 2] = from_float<T>(value);
      return;
    }
    const int64_t at = row * a.out_stride + first + weight_row;
    if (a.epilogue == Epilogue::Store) {
      const float sum = sum_of(0);
      static_cast<T*>(a.out)[at] =
          from_float<T>(a.activates ? activate_briefly(sum, a.activation) : sum);
    } else {
      static_cast<float*>(a.out)[at] = old + a.scale * sum_of(0);
    }
  }
};

// A lane's activations of a step: row 8 i + lane / 4, columns in both halves.
struct Halves {
  uint4 first, second;
};

// Multiplies one step: 64 columns of 8 weight rows. The products have their columns in the order of
// gemv_row_sm90.
template <class T>
__device__ void multiply_step(float (&sums)[2][4], uint4 weights, uint4 other, const Halves& in) {
  const uint4 &x = in.first, &y = in.second;
  mma(T(), sums[0], {x.x, y.x, x.z, y.z}, weights.x, weights.z);
  mma(T(), sums[1], {x.y, y.y, x.w, y.w}, weights.y, weights.w);
  mma(T(), sums[0], {y.x, x.x, y.z, x.z}, other.x, other.z);
  mma(T(), sums[1], {y.y, x.y, y.w, x.w}, other.y, other.w);
}

// kSets: sets of 8 activation rows.
template <class T, int kSets>
__device__ void consume(const LinearLaunch& a, const Layout& layout, const char* tiles, Ring& ring,
                        float* partials, const T* activations) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int weight_row = lane / 4, part = lane % 4 * 16;
  // Byte offsets of this lane's 8 columns. `begin`: the lane's weight row in the first half of a
  // step; `other`: distance from there to the second half.
  const int begin = weight_row * kRowBytes + part + weight_row % 2 * 64;
  const int other = weight_row % 2 ? -64 : 64;
  const char* rows[kSets];
#pragma unroll
  for (int i = 0; i < kSets; ++i) {
    // A lane beyond the last row reads the last row. Nobody writes its results.
    const int row = min(8 * i + lane / 4, a.rows - 1);
    rows[i] = reinterpret_cast<const char*>(activations + row * layout.activation_row) + part;
  }
  const int partial_floats = kConsumerWarps * kTileRows * layout.partial_rows;
  constexpr int kTurns = kTileCols / kStep / kConsumerWarps;
  Turn turn;
  for (int count = 0;; ++count) {
    barrier_wait(&ring.full[turn.slot], turn.lap & 1);
    const int group = ring.group_at[turn.slot];
    if (group == kNoMore) break;
    const int64_t first_row = int64_t{group} * kTileRows;
    const Finish finish(a, first_row);
    float sums[kSets][2][4] = {};
    for (int64_t col = 0; col < a.ins; col += kTileCols, turn.next(layout.slots)) {
      const char* tile = tiles + turn.slot * kSlotBytes + begin;
      const int steps = static_cast<int>(min(int64_t{kTileCols}, a.ins - col)) / kStep;
      if (col > 0) barrier_wait(&ring.full[turn.slot], turn.lap & 1);
#pragma unroll
      for (int i = 0; i < kTurns; ++i) {
        const int step = warp + i * kConsumerWarps;
        if (step >= steps) break;
        const char* at = tile + step * kStep * 2;
        const uint4 weights = *reinterpret_cast<const uint4*>(at);
        const uint4 others = *reinterpret_cast<const uint4*>(at + other);
#pragma unroll
        for (int set = 0; set < kSets; ++set) {
          const char* in = rows[set] + (col + step * kStep) * 2;
          multiply_step<T>(
              sums[set], weights, others,
              {*reinterpret_cast<const uint4*>(in), *reinterpret_cast<const uint4*>(in + 64)});
        }
      }
      __syncwarp();
      if (lane == 0) barrier_arrive(&ring.empty[turn.slot]);
    }
    // The lane's sums are for activation row lane / 4 and weight rows 2 * (lane % 4) and the next.
    // Sums of the even weight row are in the operand's first 8 rows, sums of the odd row in the
    // last 8.
    float* set_of_sums = partials + (count & 1) * partial_floats;
#pragma unroll
    for (int set = 0; set < kSets; ++set) {
      const int row = warp * layout.partial_rows + 8 * set + lane / 4;
      const float(&sum)[2][4] = sums[set];
      reinterpret_cast<float2*>(set_of_sums)[row * kTileRows / 2 + lane % 4] = {
          sum[0][0] + sum[1][0], sum[0][3] + sum[1][3]};
    }
    consumers_synchronize();
    finish.write<T>(a, first_row, set_of_sums, layout.partial_rows);
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads, 1)
    gemv_sm90(__grid_constant__ const LinearLaunch a, __grid_constant__ const Layout layout) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ __align__(128) char shared[];
  __shared__ Ring ring;
  ring.init(layout.slots, kConsumerWarps);
  __syncthreads();
  let_next_kernel_start();

  if (threadIdx.x >= kConsumers) {
    fetch_weights<T>(a, layout, Groups(), shared, ring);
    return;
  }
  T* activations = reinterpret_cast<T*>(shared + layout.activations_at);
  if (!a.norm_weight) {
    copy_activations(a, activations, layout.activation_row);
  } else {
    norm_rows(a, activations, layout.activation_row);
  }
  consumers_synchronize();
  float* partials = reinterpret_cast<float*>(shared + layout.partials_at);
  if (a.rows <= 8) {
    consume<T, 1>(a, layout, shared, ring, partials, activations);
  } else {
    consume<T, 2>(a, layout, shared, ring, partials, activations);
  }
#endif
}

template <class T>
void launch(const LinearLaunch& a, int multiprocessors, Stream stream) {
  const Layout layout = gemv_rows::layout_for(a, multiprocessors);
  SKALD_CUDA(cudaFuncSetAttribute(gemv_sm90<T>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  gemv_rows::kMostBlockBytes));
  ask_for_all_shared(gemv_sm90<T>);
  launch_kernel(gemv_sm90<T>,
                {dim3(multiprocessors), kThreads, static_cast<size_t>(layout.bytes), a.dependent},
                stream, a, layout);
}

}  // namespace

void launch_gemv_sm90(const LinearLaunch& a, int multiprocessors, Stream stream) {
  check(a.gemv.ticket, "gemv_sm90 has a ticket");
  if (a.rows == 1) return launch_gemv_row_sm90(a, multiprocessors, stream);
  if (a.type == DType::F16) {
    launch<Half>(a, multiprocessors, stream);
  } else {
    launch<Bf16>(a, multiprocessors, stream);
  }
}

template <>
void launch_product<kernel_id("gemv_sm90")>(const ProductCall& call) {
  launch_gemv_sm90(call.pieces.front(), call.multiprocessors, call.stream);
}

}  // namespace skald::cuda
