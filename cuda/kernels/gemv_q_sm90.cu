// out = W · in for 1 to 8 rows and a quantized W, at the memory's speed: its records (tiles/), read
// once.
//
// As many blocks as multiprocessors, small enough for two on each: while a kernel runs, the next
// one's blocks are there already and fill their rings. A producer warp fetches tiles of 16 weight
// rows x 1024 or 2048 columns, one bulk copy each, without waiting for the kernel ahead. Eight
// consumer warps multiply on the tensor cores, 128 columns of the 16 weight rows at a time; each
// has columns of its own, of which it brings the activations into shared memory. Codes are
// multiplied as whole numbers, scales are applied to sums of 16 or 32 products, in float32. A
// finisher warp adds up what the consumers leave of 16 weight rows and writes results, while they
// are at the next: nowhere does a block meet. Activations are f16 with a power of two for every
// 128, so that none overflows and what a 16-bit number held before is kept. One row and more are
// two kernels, but the order of every sum is fixed and the same for any number of rows.
#include "cuda/kernels/built_for.h"
#include "cuda/kernels/device/launch.cuh"
#include "cuda/kernels/device/math.cuh"
#include "cuda/kernels/device/number.cuh"
#include "cuda/kernels/device/ptx.cuh"
#include "cuda/kernels/device/tile_product.cuh"
#include "cuda/kernels/device/tile_ring.cuh"
#include "cuda/kernels/device/tile_rows.cuh"
#include "cuda/kernels/linear.h"

namespace skald::cuda {
namespace {

constexpr int kConsumerThreads = kWarps * 32;
constexpr int kThreads = kConsumerThreads + 2 * 32;  // the finisher's and the producer's warps

// What passes between consumers and finisher: a ring of sets of partial sums.
struct Sets {
  float* partials;  // [sets, warp, row, kPartialRow]
  int* groups;      // [sets]
  uint64_t *ready, *drained;
};

// Adds up the warps' shares and writes results out. For one warp: a lane has the results of weight
// row lane % 16 for every second row, kEach of them.
template <class T, int kEach>
__device__ void finish(const LinearLaunch& a, const Layout& layout, const Sets& sets,
                       const float (*squares)[kWarps]) {
  const int lane = static_cast<int>(threadIdx.x) % 32, weight_row = lane % tiles::kRows;
  const bool gated = a.epilogue == Epilogue::Gated;
  // Beyond the last row its results once more.
  const auto row_of = [&](int i) { return min(lane / tiles::kRows + 2 * i, a.rows - 1); };
  float norms[kEach];
#pragma unroll
  for (float& norm : norms) norm = 1;
  Turn turn;
  for (int i = 0;; ++i) {
    float bias = 0, old[kEach] = {}, sums[kEach];
    int64_t weight = 0;
    bool inside = false;
    const auto begin = [&](int group) {
      weight = int64_t{group} * tiles::kRows + weight_row;
      inside = weight < a.outs;
      if (!inside) return;
      if (a.bias) bias = __ldg(a.bias + weight);
      if (a.epilogue != Epilogue::AddTo) return;
      const float* out = static_cast<const float*>(a.out) + weight;
#pragma unroll
      for (int n = 0; n < kEach; ++n) old[n] = __ldcg(out + row_of(n) * a.out_stride);
    };
    // A block's own groups are known before they come.
    const int own = TileGroups::own(layout, i);
    if (own != kNoMore) begin(own);
    for (int chunk = 0;;) {
      barrier_wait(&sets.ready[turn.slot], turn.lap & 1);
      if (own == kNoMore && chunk == 0) {
        const int group = sets.groups[turn.slot];
        if (group == kNoMore) return;
        begin(group);
      }
      const float* set = sets.partials + turn.slot * layout.set_floats + weight_row;
      float both[kEach][2] = {};
#pragma unroll
      for (int warp = 0; warp < kWarps; ++warp) {
#pragma unroll
        for (int n = 0; n < kEach; ++n) {
          both[n][warp % 2] += set[(warp * a.rows + row_of(n)) * kPartialRow];
        }
      }
      // The squares are there when the first sums are.
      if (i == 0 && a.norm_weight) {
#pragma unroll
        for (int n = 0; n < kEach; ++n) {
          float sum = 0;
#pragma unroll
          for (int warp = 0; warp < kWarps; ++warp) sum += squares[row_of(n)][warp];
          norms[n] = rsqrtf(sum / static_cast<float>(a.ins) + a.norm_eps);
        }
      }
      __syncwarp();
      if (lane == 0) barrier_arrive(&sets.drained[turn.slot]);
      turn.next(layout.sets);
#pragma unroll
      for (int n = 0; n < kEach; ++n) {
        sums[n] = fmaf(both[n][0] + both[n][1], norms[n], bias);
        if (a.epilogue == Epilogue::AddTo) old[n] = fmaf(a.scale, sums[n], old[n]);
      }
      if (++chunk == layout.chunks) break;
      bias = 0;
    }
#pragma unroll
    for (int n = 0; n < kEach; ++n) {
      const float up = gated ? __shfl_down_sync(~0u, sums[n], 1) : 0;
      const int row = lane / tiles::kRows + 2 * n;
      if (row >= a.rows || !inside) continue;
      const int64_t at = row * a.out_stride + weight;
      if (gated) {
        if (lane % 2 == 0) {
          static_cast<T*>(a.out)[row * a.out_stride + weight / 2] =
              from_float<T>(activate(sums[n], a.activation) * up);
        }
      } else if (a.epilogue == Epilogue::Store) {
        static_cast<T*>(a.out)[at] = from_float<T>(sums[n]);
      } else {
        static_cast<float*>(a.out)[at] = a.epilogue == Epilogue::AddTo ? old[n] : a.scale * sums[n];
      }
    }
  }
}

// The tiles of a block, by one of kWarps warps. What is to be multiplied next is in registers
// before a warp multiplies what it has.
template <class F, class Product>
__device__ void consume(const LinearLaunch& a, const Layout& layout, const char* ring,
                        const Slots& slots, const Sets& sets, const Activations& activations) {
  using Weights = typename Product::Weights;
  constexpr int kParts = kSlotParts<F>;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32, first_part = warp * kParts;
  const char* held_slots = held_pointer(&slots);
  const uint32_t drained = held_address(sets.drained), ready = held_address(sets.ready);
  // A warp without a part of its own reads another's and leaves it.
  const int most = layout.tile_records - 1;
  const int first_record = min(first_part / F::kParts, most);
  const int second_record = min((first_part + 1) / F::kParts, most);
  const char* first_at = ring + first_record * F::kRecordBytes;
  const int apart = (second_record - first_record) * F::kRecordBytes;
  float* partials = sets.partials + warp * a.rows * kPartialRow;
  Product product(activations, first_part, layout.tiles);
  Turn turn, set;
  const char* slot = first_at;
  int part = first_part, group = kNoMore, next_group;
  int left = layout.chunk_tiles, rest = layout.tiles - left;  // tiles of the chunk, and after it
  const auto enter = [&] {
    const char* at = held_slots + turn.slot * 8;
    barrier_wait(shared_address(at), turn.lap & 1);
    next_group = static_cast<int>(load4(at + offsetof(Slots, group)));
  };
  const auto load = [&](Weights& weights, int i) {
    product.load(weights, slot + (i ? apart : 0), (first_part + i) % F::kParts);
  };
  const auto release = [&] {
    __syncwarp();
    if (lane == 0) {
      barrier_arrive(shared_address(held_slots + turn.slot * 8 + offsetof(Slots, empty)));
    }
    slot += layout.slot_bytes;
    turn.next(layout.slots);
    if (turn.slot == 0) slot = first_at;
  };
  const auto leave = [&] {
    if (set.lap > 0) barrier_wait(drained + set.slot * 8, (set.lap - 1) & 1);
    product.leave(partials + set.slot * layout.set_floats);
    if (threadIdx.x == 0) sets.groups[set.slot] = group;
    __syncwarp();
    if (lane == 0) barrier_arrive(ready + set.slot * 8);
    set.next(layout.sets);
  };
  // The last part of a tile, while the first of the next one is under way; false when there is
  // none.
  const auto multiply_last = [&](const Weights& now, Weights& next) {
    release();
    enter();
    load(next, 0);
    if (part < layout.parts) {
      product.multiply(now, kParts - 1, kParts == 1 || F::kParts > 1 || part + 1 < layout.parts);
    }
    product.next_tile();
    part += kWarps * kParts;
    if (--left > 0) return true;
    leave();
    if (rest == 0) {
      product.rewind();
      part = first_part;
      rest = layout.tiles;
      group = next_group;
    }
    left = min(layout.chunk_tiles, rest);
    rest -= left;
    return group != kNoMore;
  };

  Weights some, others;
  enter();
  group = next_group;
  while (group != kNoMore) {
    load(some, 0);
    if constexpr (kParts > 1) {
      do {
        load(others, 1);
        if (part < layout.parts) product.multiply(some, 0, true);
      } while (multiply_last(others, some));
    } else {
      while (multiply_last(some, others) && multiply_last(others, some)) {
      }
    }
  }
  leave();
}

template <class F, class T, bool kOne>
__global__ void __launch_bounds__(kThreads, kOne ? 2 : 1)
    gemv_q_sm90(__grid_constant__ const LinearLaunch a, __grid_constant__ const Layout layout) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ __align__(128) char shared[];
  __shared__ Slots slots;
  __shared__ __align__(8) uint64_t ready[kMostSets], drained[kMostSets];
  __shared__ int set_groups[kMostSets];
  __shared__ float squares[kMostRows][kWarps];
  if (threadIdx.x < layout.slots) {
    barrier_init(&slots.full[threadIdx.x], 1);
    barrier_init(&slots.empty[threadIdx.x], kWarps);
    barrier_init_fence();
  } else if (threadIdx.x >= kMostSlots && threadIdx.x < kMostSlots + layout.sets) {
    const unsigned set = threadIdx.x - kMostSlots;
    barrier_init(&ready[set], kWarps);
    barrier_init(&drained[set], 1);
  }
  __syncthreads();
  let_next_kernel_start();

  if (threadIdx.x >= kConsumerThreads + 32) {
    fetch(a, layout, shared, slots);
    return;
  }
  const Sets sets = {reinterpret_cast<float*>(shared + layout.partials_at), set_groups, ready,
                     drained};
  if (threadIdx.x >= kConsumerThreads) {
    wait_for_kernel_ahead();
    finish<T, kOne ? 1 : kMostRows / 2>(a, layout, sets, squares);
    return;
  }
  const Activations activations = {a.rows,
                                   layout.first_record * F::kParts,
                                   layout.parts,
                                   reinterpret_cast<__half*>(shared + layout.activations_at),
                                   layout.activation_row,
                                   reinterpret_cast<float*>(shared + layout.scales_at),
                                   shared + layout.sums_at,
                                   squares,
                                   shared + layout.activations_at};
  if (a.norm_weight) {
    Stage<F, T, true, kOne>{a, activations}.run();
  } else {
    Stage<F, T, false, kOne>{a, activations}.run();
  }
  __syncwarp();
  consume<F, std::conditional_t<kOne, OneRow<F>, ManyRows<F>>>(a, layout, shared, slots, sets,
                                                               activations);
#endif
}

template <class F, class T, bool kOne>
void launch(const LinearLaunch& a, int multiprocessors, Stream stream) {
  const auto kernel = gemv_q_sm90<F, T, kOne>;
  SKALD_CUDA(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kMostBlockBytes));
  SKALD_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                                  cudaSharedmemCarveoutMaxShared));
  const auto run = [&](const LinearLaunch& part, const Layout& layout) {
    launch_kernel(kernel,
                  {dim3(multiprocessors), kThreads, static_cast<size_t>(layout.bytes), a.dependent},
                  stream, part, layout);
  };
  const Layout whole = layout_for<F>(a, multiprocessors);
  if (whole.enough) return run(a, whole);
  LinearLaunch part = a;
  for (int chunk = 0; chunk < whole.chunks; ++chunk) {
    run(part, layout_for<F>(a, multiprocessors, chunk));
    part.bias = nullptr;
  }
}

}  // namespace

bool supports_gemv_q_sm90(const LinearLaunch& a, int compute_capability) {
  if (!kHasSm90a || compute_capability != 90 || a.rows > kMostRows) return false;
  if (a.type != DType::BF16 || (a.epilogue == Epilogue::Gated && a.outs % 2 != 0)) return false;
  bool fits = false;
  tiles::dispatch(a.format, [&](auto f) {
    using F = decltype(f);
    const Layout whole = layout_for<F>(a, 1);
    fits = whole.enough || (whole.chunks > 1 && !a.norm_weight && layout_for<F>(a, 1, 0).enough);
  });
  return fits;
}

void launch_gemv_q_sm90(const LinearLaunch& a, int multiprocessors, Stream stream) {
  check(a.ticket, "gemv_q_sm90 has a ticket");
  tiles::dispatch(a.format, [&](auto f) {
    using F = decltype(f);
    a.rows == 1 ? launch<F, Bf16, true>(a, multiprocessors, stream)
                : launch<F, Bf16, false>(a, multiprocessors, stream);
  });
}

}  // namespace skald::cuda
