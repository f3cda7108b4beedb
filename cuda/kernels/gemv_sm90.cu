// out = W · in for 1 to 16 rows, at the memory's speed: outs * ins * 2 bytes, read once.
//
// One block a multiprocessor. A producer warp fetches tiles of 8 weight rows by bulk copies into a
// ring in shared memory, before it waits for the kernel ahead: weights never depend on it. Eight
// consumer warps take turns at the tile's 32-column steps and multiply on the tensor cores, where
// the activation rows are the large side and the 8 weight rows the small one, so that up to 16 rows
// cost no more than one. Their partial sums meet in shared memory after every 8 weight rows. The
// order of every sum is fixed and the same for any number of rows.
#include "cuda/kernels/built_for.h"
#include "cuda/kernels/device/launch.cuh"
#include "cuda/kernels/device/math.cuh"
#include "cuda/kernels/device/number.cuh"
#include "cuda/kernels/device/ptx.cuh"
#include "cuda/kernels/linear.h"

namespace skald::cuda {
namespace {

constexpr int kMostRows = 16;
constexpr int kTileRows = 8;
constexpr int kStep = 32;  // columns of one matrix load, and of two matrix products
constexpr int kWarps = 8;
constexpr int kConsumers = kWarps * 32;
constexpr int kThreads = kConsumers + 32;
constexpr int kPartialFloats = kWarps * kTileRows * kMostRows;

// How the ring is cut. A bulk copy fetches kCols of one row: short ones keep the copy engine from
// reaching the memory's speed. Two blocks must fit on a multiprocessor, this one and the next
// kernel's.
template <int kCols_, int kSlots_>
struct Ring {
  static constexpr int kCols = kCols_;
  static constexpr int kSlots = kSlots_;
  // Rows lie 16 bytes further apart than they are long, so that the eight rows which one matrix
  // load reads fall into different banks.
  static constexpr int kRowBytes = kCols * 2 + 16;
  static constexpr int kSlotBytes = kTileRows * kRowBytes;

  // Shared memory: the ring, two sets of partial sums, then the activations [rows][ins].
  static constexpr int kPartialsAt = kSlots * kSlotBytes;
  static constexpr int kActivationsAt = kPartialsAt + 2 * kPartialFloats * 4;
};
using UsedRing = Ring<1024, 5>;

constexpr int kMostSharedBytes = 227 * 1024 - 1024;  // beside the static part

template <class R>
int64_t shared_bytes(const LinearLaunch& a) {
  return R::kActivationsAt + a.rows * a.ins * 2;
}

// Within each 16 columns the activations are stored in the order in which a lane needs them:
// columns 2t, 2t + 1, 2t + 8, 2t + 9 of lane t side by side.
[[maybe_unused]] __device__ inline int64_t activation_index(int64_t column) {
  const int within = static_cast<int>(column % 16);
  const int lane = within % 8 / 2;
  return column - within + lane * 4 + within / 8 * 2 + within % 2;
}

template <class T, class R>
__device__ void fetch(const LinearLaunch& a, int64_t first_block, int64_t last_block, char* ring,
                      uint64_t* full, uint64_t* empty) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const uint64_t policy = evict_first_policy();
  const T* weight = static_cast<const T*>(a.weight);
  unsigned tile = 0;
  for (int64_t block = first_block; block < last_block; ++block) {
    const int64_t row = block * kTileRows;
    const int rows = static_cast<int>(min(int64_t{kTileRows}, a.outs - row));
    for (int64_t col = 0; col < a.ins; col += R::kCols, ++tile) {
      const unsigned slot = tile % R::kSlots;
      const uint32_t bytes = static_cast<uint32_t>(min(int64_t{R::kCols}, a.ins - col)) * 2;
      if (tile >= R::kSlots) barrier_wait(&empty[slot], (tile / R::kSlots - 1) & 1);
      if (lane == 0) barrier_expect_bytes(&full[slot], bytes * rows);
      __syncwarp();
      if (lane < rows) {
        bulk_copy(ring + slot * R::kSlotBytes + lane * R::kRowBytes,
                  weight + (row + lane) * a.ins + col, bytes, &full[slot], policy);
      }
    }
  }
}

[[maybe_unused]] __device__ inline void consumers_meet() {
  asm volatile("bar.sync 1, %0;" ::"n"(kConsumers) : "memory");
}

// Brings all rows' activations into shared memory, normalized first where the launch asks for it.
template <class T>
__device__ void load_activations(const LinearLaunch& a, T* activations, float* scratch) {
  for (int r = 0; r < a.rows; ++r) {
    T* to = activations + r * a.ins;
    if (!a.norm_weight) {
      const T* in = static_cast<const T*>(a.in) + r * a.ins;
      for (int64_t i = threadIdx.x; i < a.ins; i += kConsumers) to[activation_index(i)] = in[i];
      continue;
    }
    const float* in = static_cast<const float*>(a.in) + r * a.ins;
    float squares = 0;
    for (int64_t i = threadIdx.x; i < a.ins; i += kConsumers) squares += in[i] * in[i];
    squares = warp_sum(squares);
    if (threadIdx.x % 32 == 0) scratch[r * kWarps + threadIdx.x / 32] = squares;
    consumers_meet();
    float sum = 0;
    for (int warp = 0; warp < kWarps; ++warp) sum += scratch[r * kWarps + warp];
    const float scale = rsqrtf(sum / static_cast<float>(a.ins) + a.norm_eps);
    for (int64_t i = threadIdx.x; i < a.ins; i += kConsumers) {
      to[activation_index(i)] = from_float<T>(in[i] * scale * a.norm_weight[i]);
    }
  }
  consumers_meet();
}

// Adds up the warps' shares of 8 weight rows and writes them out.
template <class T>
__device__ void finish(const LinearLaunch& a, int64_t row, const float* partials) {
  auto sum_of = [&](int weight_row, int r) {
    float sum = a.bias ? a.bias[row + weight_row] : 0;
    for (int warp = 0; warp < kWarps; ++warp) {
      sum += partials[(warp * kMostRows + r) * kTileRows + weight_row];
    }
    return sum;
  };
  if (a.epilogue == Epilogue::Gated) {
    const int pair = static_cast<int>(threadIdx.x) % (kTileRows / 2);
    const int r = static_cast<int>(threadIdx.x) / (kTileRows / 2);
    if (r >= a.rows || row + 2 * pair >= a.outs) return;
    const float value = activate(sum_of(2 * pair, r), a.activation) * sum_of(2 * pair + 1, r);
    static_cast<T*>(a.out)[r * (a.outs / 2) + row / 2 + pair] = from_float<T>(value);
    return;
  }
  const int weight_row = static_cast<int>(threadIdx.x) % kTileRows;
  const int r = static_cast<int>(threadIdx.x) / kTileRows;
  if (r >= a.rows || row + weight_row >= a.outs) return;
  const float sum = sum_of(weight_row, r);
  const int64_t at = r * a.outs + row + weight_row;
  if (a.epilogue == Epilogue::Store) {
    static_cast<T*>(a.out)[at] = from_float<T>(sum);
  } else if (a.epilogue == Epilogue::AddTo) {
    static_cast<float*>(a.out)[at] += sum;
  } else {
    static_cast<float*>(a.out)[at] = sum;
  }
}

template <class T, class R>
__device__ void consume(const LinearLaunch& a, int64_t first_block, int64_t last_block,
                        const char* ring, float* partials, const T* activations, uint64_t* full,
                        uint64_t* empty) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  // As ldmatrix wants it: lane names weight row lane % 8 and the 8-column part lane / 8 of the
  // step.
  const int row_offset = lane % 8 * R::kRowBytes + lane / 8 * 16;
  const bool has_low = lane / 4 < a.rows, has_high = lane / 4 + 8 < a.rows;
  const T* low = activations + (has_low ? lane / 4 : 0) * a.ins + lane % 4 * 4;
  const T* high = activations + (has_high ? lane / 4 + 8 : 0) * a.ins + lane % 4 * 4;
  constexpr int kTurns = R::kCols / kStep / kWarps;
  unsigned tile = 0;
  for (int64_t block = first_block; block < last_block; ++block) {
    float sums[2][4] = {};
    for (int64_t col = 0; col < a.ins; col += R::kCols, ++tile) {
      const unsigned slot = tile % R::kSlots;
      const char* rows = ring + slot * R::kSlotBytes + row_offset;
      const int steps = static_cast<int>(min(int64_t{R::kCols}, a.ins - col)) / kStep;
      barrier_wait(&full[slot], tile / R::kSlots & 1);
#pragma unroll
      for (int turn = 0; turn < kTurns; ++turn) {
        const int step = warp + turn * kWarps;
        if (step >= steps) break;
        uint32_t weights[4];
        load_matrices(weights, rows + step * kStep * 2);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          uint32_t ins[4] = {0, 0, 0, 0};
          const int64_t at = col + step * kStep + half * 16;
          if (has_low) {
            const uint2 loaded = *reinterpret_cast<const uint2*>(low + at);
            ins[0] = loaded.x;
            ins[2] = loaded.y;
          }
          if (has_high) {
            const uint2 loaded = *reinterpret_cast<const uint2*>(high + at);
            ins[1] = loaded.x;
            ins[3] = loaded.y;
          }
          multiply_add<T>(sums[half], ins, {weights[2 * half], weights[2 * half + 1]});
        }
      }
      __syncwarp();
      if (lane == 0) barrier_arrive(&empty[slot]);
    }
    // Lane holds activation rows lane / 4 and lane / 4 + 8, weight rows 2 * (lane % 4) and the
    // next.
    float* to = partials + (block & 1) * kPartialFloats + warp * kTileRows * kMostRows +
                lane / 4 * kTileRows + lane % 4 * 2;
    *reinterpret_cast<float2*>(to) = make_float2(sums[0][0] + sums[1][0], sums[0][1] + sums[1][1]);
    *reinterpret_cast<float2*>(to + 8 * kTileRows) =
        make_float2(sums[0][2] + sums[1][2], sums[0][3] + sums[1][3]);
    consumers_meet();
    finish<T>(a, block * kTileRows, partials + (block & 1) * kPartialFloats);
  }
}

template <class T, class R>
__global__ void __launch_bounds__(kThreads, 1) gemv_sm90(__grid_constant__ const LinearLaunch a) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ __align__(128) char shared[];
  __shared__ __align__(8) uint64_t full[R::kSlots], empty[R::kSlots];
  __shared__ float scratch[kMostRows * kWarps];
  if (threadIdx.x == 0) {
    for (int i = 0; i < R::kSlots; ++i) {
      barrier_init(&full[i], 1);
      barrier_init(&empty[i], kWarps);
    }
    barrier_init_fence();
  }
  __syncthreads();
  let_next_kernel_start();

  const int64_t blocks = (a.outs + kTileRows - 1) / kTileRows;
  const int64_t first = blocks * blockIdx.x / gridDim.x;
  const int64_t last = blocks * (blockIdx.x + 1) / gridDim.x;
  if (threadIdx.x >= kConsumers) {
    fetch<T, R>(a, first, last, shared, full, empty);
    return;
  }
  wait_for_kernel_ahead();
  T* activations = reinterpret_cast<T*>(shared + R::kActivationsAt);
  load_activations<T>(a, activations, scratch);
  consume<T, R>(a, first, last, shared, reinterpret_cast<float*>(shared + R::kPartialsAt),
                activations, full, empty);
#endif
}

template <class T, class R>
void launch(const LinearLaunch& a, int multiprocessors, Stream stream) {
  SKALD_CUDA(cudaFuncSetAttribute(gemv_sm90<T, R>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  kMostSharedBytes));
  launch_kernel(
      gemv_sm90<T, R>,
      {dim3(multiprocessors), kThreads, static_cast<size_t>(shared_bytes<R>(a)), a.dependent},
      stream, a);
}

}  // namespace

bool supports_gemv_sm90(const LinearLaunch& a, int compute_capability) {
  return kHasSm90a && compute_capability == 90 && (a.type == DType::F16 || a.type == DType::BF16) &&
         a.rows <= kMostRows && a.ins % kStep == 0 &&
         shared_bytes<UsedRing>(a) <= kMostSharedBytes &&
         (a.epilogue != Epilogue::Gated || a.outs % 2 == 0);
}

void launch_gemv_sm90(const LinearLaunch& a, int multiprocessors, Stream stream) {
  if (a.type == DType::F16) {
    launch<Half, UsedRing>(a, multiprocessors, stream);
  } else {
    launch<Bf16, UsedRing>(a, multiprocessors, stream);
  }
}

}  // namespace skald::cuda
