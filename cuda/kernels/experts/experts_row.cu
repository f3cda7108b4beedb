// experts_row: the products of one row's chosen experts. The floor is the memory's speed: the bytes
// of the chosen experts' matrices, each read once.
//
// A unit is a group of 16 weight rows of one chosen expert; a block has every gridDim-th one. The
// warps of a block have slices of a unit's columns. A warp streams the parts of all its units
// through registers, several parts ahead, without a barrier: it leaves the sums of its slices in
// shared memory, where they are added when all units are done. The order of a sum depends on the
// number of columns alone.
//
// With `sums` the results of a row's experts are added up, times their weights, on the residual
// stream: the last block that has stored results of a group of rows adds up the group.
#include "cuda/kernels/device/launch.cuh"
#include "cuda/kernels/experts/experts_sum.cuh"
#include "cuda/kernels/experts/experts_tile.cuh"
#include "cuda/kernels/experts/experts_weights.cuh"

namespace skald::cuda {
namespace {

constexpr int kThreads = kRowThreads;

#if SKALD_HAS_MMA

constexpr int kWarps = kThreads / 32;

// Parts that a warp has asked for ahead of the one that it multiplies: as many as 64 registers
// hold.
template <class Part>
constexpr int kAhead = std::clamp(256 / static_cast<int>(sizeof(Part)), 2, 6);

// Which units a block has: `own` ones, counted from 0. Each block has every gridDim-th unit. If the
// results are to be summed and there are as many blocks as groups of rows, a block has its group of
// all chosen experts instead.
struct Units {
  int own, groups;
  bool whole;

  __device__ explicit Units(const ExpertsLaunch& a) {
    const int blocks = static_cast<int>(gridDim.x), used = a.routing.used;
    groups = row_blocks(a, tiles::kRows);
    whole = a.sums && groups == blocks;
    own = whole ? used : (used * groups - static_cast<int>(blockIdx.x) + blocks - 1) / blocks;
  }
  __device__ int number(int i) const { return static_cast<int>(blockIdx.x + i * gridDim.x); }
  // The expert's number among the row's choices, and the group of the expert's rows.
  __device__ int slot(int i) const { return whole ? i : number(i) / groups; }
  __device__ int group(int i) const {
    return whole ? static_cast<int>(blockIdx.x) : number(i) % groups;
  }
};

// A warp's position in the stream of its parts: a unit of the block, and a part of the unit.
struct Cursor {
  int unit, part;
};

// Adds the slices of one weight row.
__device__ inline float sum_slices(const float* partial, int slices) {
  float sum = 0;
  for (int s = 0; s < slices; ++s) sum += partial[s * tiles::kRows];
  return sum;
}

// Adds up the row's experts of the block's group. For all threads.
__device__ inline void sum_whole_group(const ExpertsLaunch& a, const int* experts, float* partials,
                                       int slices) {
  const int row = static_cast<int>(threadIdx.x) % tiles::kRows;
  const int slot = static_cast<int>(threadIdx.x) / tiles::kRows, used = a.routing.used;
  const int64_t out = int64_t{blockIdx.x} * tiles::kRows + row;
  float result = 0;
  if (slot < used) {
    result = sum_slices(partials + slot * slices * tiles::kRows + row, slices);
    if (a.bias && out < a.outs) result += a.bias[experts[slot] * a.outs + out];
  }
  __syncthreads();
  if (slot < used) partials[threadIdx.x] = result;
  __syncthreads();
  if (slot > 0 || out >= a.outs) return;
  float sum = 0;
  for (int e = 0; e < used; ++e) {
    sum = add_expert(__ldcg(a.routing.weights + e), partials[e * tiles::kRows + row], sum);
  }
  float* x = static_cast<float*>(a.out) + out;
  *x = fmaf(a.scale, sum, __ldcg(x));
}

// Adds up the groups of which the block has stored the last results. For all threads. `last`:
// shared memory, an integer for each unit of the block.
__device__ inline void sum_stored_groups(const ExpertsLaunch& a, const Units& units, int* last) {
  const int used = a.routing.used;
  __threadfence();
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < units.own; i += kThreads) {
    unsigned* ticket = a.tickets + units.group(i);
    last[i] = atomicAdd(ticket, 1u) == static_cast<unsigned>(used - 1);
    if (last[i]) *ticket = 0;
  }
  __syncthreads();
  __threadfence();
  for (int i = static_cast<int>(threadIdx.x); i < units.own * tiles::kRows; i += kThreads) {
    const int unit = i / tiles::kRows;
    const int64_t row = int64_t{units.group(unit)} * tiles::kRows + i % tiles::kRows;
    if (!last[unit] || row >= a.outs) continue;
    const float* results = a.results + row;
    float sum = 0;
    for (int e = 0; e < used; ++e) {
      sum = add_expert(__ldcg(a.routing.weights + e), __ldcg(results + e * a.outs), sum);
    }
    float* x = static_cast<float*>(a.out) + row;
    *x = fmaf(a.scale, sum, __ldcg(x));
  }
}

#endif

template <class Part>
__global__ void __launch_bounds__(kThreads, 1)
    experts_row(__grid_constant__ const ExpertsLaunch a) {
#if SKALD_HAS_MMA
  using T = typename Part::Number;
  extern __shared__ __align__(16) char dynamic[];
  __shared__ int experts[kMostRowUsed];
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int used = a.routing.used, parts = parts_of(a.ins), slices = row_slices_of(parts);
  const int together = kWarps / slices, slice = warp % slices, first = warp / slices;
  const Units units(a);
  const int mine = first < units.own ? (units.own - first + together - 1) / together : 0;
  const int steps = mine * ((parts - slice + slices - 1) / slices);
  // Activations, [inputs, cols]: a row for each expert, or one for all.
  T* const in = reinterpret_cast<T*>(dynamic);
  const int cols = parts * kPartCols, inputs = a.by_place ? used : 1;
  // Sums of activations, [inputs, units of columns, kTotals]; then sums of the slices.
  float* const totals = reinterpret_cast<float*>(dynamic + int64_t{inputs} * cols * sizeof(T));
  const int row_totals = cols / kUnitCols * Part::kTotals;
  float* const partials = totals + inputs * row_totals;

  if (!a.chosen_early) wait_for_kernel_ahead();
  const int chosen = lane < used ? __ldcg(a.routing.chosen + lane) : 0;
  if (warp == 0 && lane < used) experts[lane] = chosen;
  typename Part::Rows rows;
  const auto advance = [&](Cursor& cursor) {
    cursor.part += slices;
    if (cursor.part >= parts) cursor = {cursor.unit + together, slice};
  };
  Cursor ahead = {first, slice};
  const auto load = [&](Part& part) {
    if (ahead.part == slice) {
      rows.set(a, __shfl_sync(~0u, chosen, units.slot(ahead.unit)),
               int64_t{units.group(ahead.unit)} * tiles::kRows);
    }
    part.load(rows, ahead.part);
    advance(ahead);
  };
  Part ring[kAhead<Part>];
#pragma unroll
  for (int i = 0; i < kAhead<Part>; ++i) {
    if (i < steps) load(ring[i]);
  }
  if (a.chosen_early) wait_for_kernel_ahead();
  // Not earlier: the next kernel may read the choice of experts ahead of its wait.
  let_next_kernel_start();

  for (int base = 0; base < inputs * cols / 8; base += kThreads) {
    const int i = base + static_cast<int>(threadIdx.x);
    const int row = i / (cols / 8), col = i % (cols / 8) * 8;
    const bool real = row < inputs && col < a.ins;
    const T* from = static_cast<const T*>(a.in) + row * a.ins + col;
    const uint4 eight = real ? __ldcg(reinterpret_cast<const uint4*>(from)) : uint4{0, 0, 0, 0};
    const float total = total_of<Part>(eight);
    if (row >= inputs) continue;
    reinterpret_cast<uint4*>(in)[i] = eight;
    if (Part::kTotals > 0 && i % kTotalLanes<Part> == 0) totals[i / kTotalLanes<Part>] = total;
  }
  __syncthreads();

  float sums[4] = {};
  Cursor at = {first, slice};
  for (int base = 0; base < steps; base += kAhead<Part>) {
#pragma unroll
    for (int i = 0; i < kAhead<Part>; ++i) {
      if (base + i >= steps) break;
      const int input = a.by_place ? units.slot(at.unit) : 0;  // every lane has place 0
      const char* x = reinterpret_cast<const char*>(in + input * cols + at.part * kPartCols);
      const float* sum = totals + input * row_totals + at.part * kPartUnits * Part::kTotals;
      uint4 numbers[kPartUnits];
#pragma unroll
      for (int unit = 0; unit < kPartUnits; ++unit) numbers[unit] = shared_unit<Part>(x, unit);
      ring[i].multiply(sums, numbers, [&](int unit, int m) {
        return make_float2(sum[unit * Part::kTotals + m], 0);
      });
      if (base + i + kAhead<Part> < steps) load(ring[i]);
      const Cursor done = at;
      advance(at);
      if (at.unit == done.unit) continue;
      if (lane % 4 == 0) {
        float* partial = partials + (done.unit * slices + slice) * tiles::kRows + lane / 4;
        partial[0] = sums[0];
        partial[8] = sums[2];
      }
#pragma unroll
      for (float& sum : sums) sum = 0;
    }
  }
  __syncthreads();

  if (units.whole) return sum_whole_group(a, experts, partials, slices);
  const int step = a.epilogue == Epilogue::Gated ? 2 : 1, results = tiles::kRows / step;
  for (int i = static_cast<int>(threadIdx.x); i < units.own * results; i += kThreads) {
    const int unit = i / results, row = i % results * step, slot = units.slot(unit);
    const int64_t out = int64_t{units.group(unit)} * tiles::kRows + row;
    if (out >= a.outs) continue;
    const float* partial = partials + unit * slices * tiles::kRows + row;
    const float up = step == 2 ? sum_slices(partial + 1, slices) : 0;
    const float sum = sum_slices(partial, slices);
    if (a.sums) {
      const float bias = a.bias ? a.bias[experts[slot] * a.outs + out] : 0;
      a.results[slot * a.outs + out] = sum + bias;
    } else {
      store_result<T>(a, {experts[slot], slot, out}, sum, up);
    }
  }
  // The partial sums have been read after sum_stored_groups' first barrier.
  if (a.sums) sum_stored_groups(a, units, reinterpret_cast<int*>(partials));
#endif
}

}  // namespace

void launch_experts_row(const ExpertsLaunch& a, Stream stream) {
  const RowShared shared(a, a.routing);
  const int groups = row_blocks(a, tiles::kRows), units = a.routing.used * groups;
  const bool whole = a.sums && groups <= a.multiprocessors;
  // A block on each multiprocessor, or more if the sums of so many units did not fit.
  const int most = static_cast<int>(shared.most_own()), fewest = (units + most - 1) / most;
  const int blocks = whole ? groups : std::min(units, std::max(a.multiprocessors, fewest));
  const int64_t own = whole ? a.routing.used : (units + blocks - 1) / blocks;
  const int bytes = static_cast<int>(shared.bytes(own));
  dispatch_parts(a, [&](auto* part) {
    using Part = std::remove_pointer_t<decltype(part)>;
    const auto kernel = experts_row<Part>;
    SKALD_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    launch_kernel(kernel, {dim3(blocks), kThreads, static_cast<size_t>(bytes), a.dependent}, stream,
                  a);
  });
}

template <>
void launch_experts<kernel_id("experts_row")>(const ExpertsLaunch& launch, Stream stream) {
  launch_experts_row(launch, stream);
}

}  // namespace skald::cuda
