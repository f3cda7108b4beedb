// out = W · in for 1 to 8 rows and a quantized W, at the memory's speed: its records (tiles/), read
// once.
//
// One block a multiprocessor. A producer warp fetches tiles of 16 weight rows x 2048 columns, one
// bulk copy each, into a ring in shared memory, without waiting for the kernel ahead. Sixteen
// consumer warps take 128 columns of a tile each and multiply on the tensor cores, the 16 weight
// rows by up to 8 activation rows. Codes are multiplied as whole numbers, scales are applied to
// sums of 16 or 32 products, in float32. Activations are f16 with a power of two for every 128, so
// that none overflows and what a 16-bit number held before is kept. The order of every sum is fixed
// and the same for any number of rows.
#include <algorithm>

#include "cuda/kernels/built_for.h"
#include "cuda/kernels/device/launch.cuh"
#include "cuda/kernels/device/math.cuh"
#include "cuda/kernels/device/mma.cuh"
#include "cuda/kernels/device/number.cuh"
#include "cuda/kernels/device/ptx.cuh"
#include "cuda/kernels/device/tile_lane.cuh"
#include "cuda/kernels/linear.h"

namespace skald::cuda {
namespace {

constexpr int kMostRows = 8;
constexpr int kWarps = 16;  // consumers
constexpr int kConsumerThreads = kWarps * 32;
constexpr int kThreads = kConsumerThreads + 32;
constexpr int kTileCols = kWarps * tiles::kPartCols;
constexpr int kFewestSlots = 3, kMostSlots = 12;

// See gemv_sm90: more than half of the shared memory, and little enough for attention beside it.
constexpr int kBlockBytes = 160 * 1024;
constexpr int kMostBlockBytes = 226 * 1024;

constexpr int kPartialRow = 20;  // floats: 16, and no bank twice

// Shared memory: the ring, two sets of partial sums, the activations, their scales (a part's 8 rows
// together) and their sums (a block's 8 rows together). An activation row starts 64 bytes further
// than a multiple of 128, so that two rows' reads fall into different banks.
struct Layout {
  int parts;    // of a row of the matrix
  int records;  // of a group of rows
  int record_bytes, tile_records;
  int slots, slot_bytes;
  int partials_at, activations_at, activation_row, scales_at, sums_at, bytes;
  int groups, groups_each;  // as in gemv_sm90
};

template <class F>
Layout layout_for(const LinearLaunch& a, int blocks) {
  Layout layout;
  layout.records = static_cast<int>((a.ins + F::kRecordCols - 1) / F::kRecordCols);
  layout.parts = layout.records * F::kParts;
  layout.record_bytes = F::kRecordBytes;
  layout.tile_records = std::min(layout.records, kTileCols / F::kRecordCols);
  layout.slot_bytes = (layout.tile_records * F::kRecordBytes + 127) / 128 * 128;
  layout.groups = static_cast<int>((a.outs + tiles::kRows - 1) / tiles::kRows);
  constexpr int kFewGroups = 8;
  const int each = layout.groups / blocks;
  layout.groups_each = each < kFewGroups ? each : each * 3 / 4;

  const int partials = 2 * kWarps * a.rows * kPartialRow * 4;
  layout.activation_row = layout.parts * tiles::kPartCols + 32;
  const int64_t activations = int64_t{a.rows} * layout.activation_row * 2;
  const int scales = layout.parts * kMostRows * 4;
  const int sums = scales * (tiles::kPartCols / F::Scales::kCols);
  const int64_t others = partials + activations + scales + sums;
  const bool usual = others + kFewestSlots * layout.slot_bytes <= kBlockBytes;
  const int64_t slots = ((usual ? kBlockBytes : kMostBlockBytes) - others) / layout.slot_bytes;
  layout.slots = static_cast<int>(std::clamp<int64_t>(slots, 0, kMostSlots));
  layout.partials_at = layout.slots * layout.slot_bytes;
  layout.activations_at = layout.partials_at + partials;
  layout.scales_at = static_cast<int>(layout.activations_at + activations);
  layout.sums_at = layout.scales_at + scales;
  layout.bytes = layout.sums_at + sums;
  return layout;
}

// A place in the ring, and how often it was passed.
struct Turn {
  int slot = 0;
  unsigned lap = 0;
  __device__ void next(int slots) {
    if (++slot == slots) {
      slot = 0;
      ++lap;
    }
  }
};

constexpr int kNoMore = -1;

// The groups that a block multiplies, one after the other: its own, then what the ticket gives.
struct Groups {
  int taken = 0;
  unsigned ticket = 0;  // in lane 0, asked for one group ahead of its use

  // For whole warps.
  __device__ int next(const LinearLaunch& a, const Layout& layout) {
    const int own = layout.groups_each, shared = own * static_cast<int>(gridDim.x);
    int group = static_cast<int>(blockIdx.x) * own + taken;
    if (own == 0 && taken == 0) draw(a);
    if (taken >= own) {
      const int drawn = static_cast<int>(__shfl_sync(~0u, ticket, 0));
      group = shared + drawn;
      if (group >= layout.groups) {
        const int last = layout.groups - shared + static_cast<int>(gridDim.x) - 1;
        if (drawn == last && threadIdx.x % 32 == 0) *a.ticket = 0;
        return kNoMore;
      }
    }
    if (++taken >= own) draw(a);
    return group;
  }

 private:
  __device__ void draw(const LinearLaunch& a) {
    if (threadIdx.x % 32 == 0) ticket = atomicAdd(a.ticket, 1u);
  }
};

// For one warp; one lane issues all copies, always the same.
__device__ void fetch(const LinearLaunch& a, const Layout& layout, char* ring, int* group_at,
                      uint64_t* full, uint64_t* empty) {
  const uint64_t policy = evict_first_policy();
  const char* weight = static_cast<const char*>(a.weight);
  const int64_t group_bytes = int64_t{layout.records} * layout.record_bytes;
  Turn turn;
  Groups groups;
  for (;;) {
    const int group = groups.next(a, layout);
    if (group == kNoMore) break;
    for (int record = 0; record < layout.records;
         record += layout.tile_records, turn.next(layout.slots)) {
      const int records = min(layout.tile_records, layout.records - record);
      const uint32_t bytes = static_cast<uint32_t>(records * layout.record_bytes);
      if (turn.lap > 0) barrier_wait(&empty[turn.slot], (turn.lap - 1) & 1);
      if (elect_lane()) {
        group_at[turn.slot] = group;
        barrier_expect_bytes(&full[turn.slot], bytes);
        bulk_copy(ring + turn.slot * layout.slot_bytes,
                  weight + group * group_bytes + int64_t{record} * layout.record_bytes, bytes,
                  &full[turn.slot], policy);
      }
      __syncwarp();
    }
  }
  if (turn.lap > 0) barrier_wait(&empty[turn.slot], (turn.lap - 1) & 1);
  if (elect_lane()) {
    group_at[turn.slot] = kNoMore;
    barrier_arrive(&full[turn.slot]);
  }
}

__device__ inline void consumers_meet() { named_barrier<1, kConsumerThreads>(); }

struct Activations {
  // [rows, activation_row]; of every 32, first the eight that lane l % 4 = 0 of a group multiplies.
  __half* values;
  float* scales;  // [parts, 8]: what a part's sums are to be multiplied by
  // Of the values of each block of kCols columns. Without minimums: float [blocks, 8], times what
  // is to be taken off for the offset of codes. With: f16 [parts, 8, 2 * blocks of a part], times
  // kSumUnit, first the f16 next to each, then what is left.
  char* sums;
};
constexpr float kSumUnit = 1.0f / 64;

// A part of one row, four columns a lane, as f16 and a power of two; a lane's `x` that lies beyond
// the matrix is zero. For a whole warp.
template <class F>
__device__ void store_part(const Activations& to, const Layout& layout, int row, int part,
                           float4 x) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  float most = fmaxf(fmaxf(fabsf(x.x), fabsf(x.y)), fmaxf(fabsf(x.z), fabsf(x.w)));
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    most = fmaxf(most, __shfl_xor_sync(~0u, most, offset));
  }
  // 2^e <= most < 2^(e + 1) becomes 2^14: e + 127 are the upper bits. What is too small for a
  // power's inverse to be a float is zero beside any other number. Infinity and NaN stay what they
  // are and are found among the logits.
  const int exponent = min(max(static_cast<int>(__float_as_uint(most) >> 23), 14 + 2), 254);
  const float up = __uint_as_float(static_cast<uint32_t>(254 + 14 - exponent) << 23);
  const float down = __uint_as_float(static_cast<uint32_t>(exponent - 14) << 23);
  constexpr float kOdd = F::Codes::kOddScale;
  const uint2 four = {pack(Half(), x.x * up, x.y * up),
                      pack(Half(), x.z * (up / kOdd), x.w * (up / kOdd))};
  const int place = lane / 8 * 32 + lane % 4 * 8 + lane / 4 % 2 * 4;
  *reinterpret_cast<uint2*>(to.values + row * layout.activation_row + part * tiles::kPartCols +
                            place) = four;
  float sum =
      (low_half(four.x) + high_half(four.x)) + (low_half(four.y) + high_half(four.y)) * kOdd;
  constexpr int kLanes = F::Scales::kCols / 4, kBlocks = 32 / kLanes;
#pragma unroll
  for (int offset = 1; offset < kLanes; offset *= 2) sum += __shfl_xor_sync(~0u, sum, offset);
  if (lane % kLanes == 0) {
    const int block = lane / kLanes;
    if constexpr (F::kHasMin) {
      __half* sums =
          reinterpret_cast<__half*>(to.sums) + (part * kMostRows + row) * (2 * kBlocks) + block;
      sums[0] = __float2half_rn(sum * kSumUnit);
      sums[kBlocks] = __float2half_rn(sum * kSumUnit - __half2float(sums[0]));
    } else {
      reinterpret_cast<float*>(to.sums)[(part * kBlocks + block) * kMostRows + row] =
          sum * (-F::kOffset * kCodeUnit);
    }
  }
  if (lane == 0) to.scales[part * kMostRows + row] = down * (1 / kCodeUnit);
}

__device__ inline float4 load_four(const float* row, int at) {
  return __ldcg(reinterpret_cast<const float4*>(row) + at);
}
template <class T>
__device__ float4 load_four(const T* row, int at) {
  const uint2 bits = __ldcg(reinterpret_cast<const uint2*>(row) + at);
  const T* four = reinterpret_cast<const T*>(&bits);
  return {to_float(four[0]), to_float(four[1]), to_float(four[2]), to_float(four[3])};
}
__device__ inline float squares(float4 x) { return x.x * x.x + x.y * x.y + x.z * x.z + x.w * x.w; }

// Every thread takes every kConsumerThreads-th four columns of a row: a warp those of one part.
template <class F, class T>
__device__ void stage_rows(const LinearLaunch& a, const Layout& layout, const Activations& to) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int fours = static_cast<int>(a.ins / 4);
  for (int i = warp; i < a.rows * layout.parts; i += kWarps) {
    const int row = i / layout.parts, part = i % layout.parts, at = part * 32 + lane;
    const T* in = static_cast<const T*>(a.in) + row * a.ins;
    store_part<F>(to, layout, row, part, at < fours ? load_four(in, at) : float4{});
  }
}

template <class F>
__device__ void stage_normed(const LinearLaunch& a, const Layout& layout, const Activations& to,
                             float (*scratch)[kWarps]) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int fours = static_cast<int>(a.ins / 4);
  for (int row = 0; row < a.rows; ++row) {
    const float* in = static_cast<const float*>(a.in) + row * a.ins;
    float sum = 0;
#pragma unroll 4
    for (int at = threadIdx.x; at < fours; at += kConsumerThreads) {
      sum += squares(load_four(in, at));
    }
    sum = warp_sum(sum);
    if (lane == 0) scratch[row][warp] = sum;
  }
  consumers_meet();
  for (int row = 0; row < a.rows; ++row) {
    const float* in = static_cast<const float*>(a.in) + row * a.ins;
    float sum = 0;
#pragma unroll
    for (int i = 0; i < kWarps; ++i) sum += scratch[row][i];
    const float scale = rsqrtf(sum / static_cast<float>(a.ins) + a.norm_eps);
    for (int part = warp; part < layout.parts; part += kWarps) {
      const int at = part * 32 + lane;
      float4 x = {};
      if (at < fours) {
        x = load_four(in, at);
        const float4 weight = load_four(a.norm_weight, at);
        x = {x.x * scale * weight.x, x.y * scale * weight.y, x.z * scale * weight.z,
             x.w * scale * weight.w};
      }
      store_part<F>(to, layout, row, part, x);
    }
  }
}

// What a lane multiplies weights with: of activation row lane / 4 its eight of every 32 columns.
// Offsets and scales are of rows 2 * (lane % 4) and the next, sums for minimums of row lane / 4.
struct LaneActivations {
  const char *values, *sums;
  const float* scales;
};

// totals += of one part: weight rows lane / 4 and + 8 by activation rows 2 * (lane % 4) and + 1.
template <class F>
__device__ void multiply_part(float (&totals)[4], const char* record, int part_of_record, int part,
                              const LaneActivations& in) {
  constexpr int kBlocks = tiles::kPartCols / F::Scales::kCols;
  LanePart<F> weights;
  weights.load(record, part_of_record, static_cast<int>(threadIdx.x) % 32);
  const char* values = in.values + part * (tiles::kPartCols * 2);
  const char* sums = in.sums + part * (kBlocks * kMostRows * 4);
  float products[4] = {}, c[4];
#pragma unroll
  for (int unit = 0; unit < tiles::kUnits; ++unit) {
    const uint4 x = load16(values + unit * 64);
#pragma unroll
    for (int m = 0; m < 2; ++m) {
      const bool begins = m == 0 || F::Scales::kCols == 16;
      const int b = F::Scales::kCols == 16 ? unit * 2 + m : unit;
      if (begins) {
        float2 offset = {0, 0};
        if (!F::kHasMin) offset = *reinterpret_cast<const float2*>(sums + b * kMostRows * 4);
        c[0] = c[2] = offset.x;
        c[1] = c[3] = offset.y;
      }
      uint32_t rows[4];
      weights.codes.pairs(unit, 0, m, rows[0], rows[2]);
      weights.codes.pairs(unit, 1, m, rows[1], rows[3]);
      mma(Half(), c, rows, m ? x.z : x.x, m ? x.w : x.y);
      if (m == 0 && F::Scales::kCols == 32) continue;
#pragma unroll
      for (int i = 0; i < 4; ++i) products[i] += weights.scales.scale(b, i / 2) * c[i];
    }
  }
  const float2 scales = *reinterpret_cast<const float2*>(in.scales + part * kMostRows);
  float min_products[4] = {};
  if constexpr (F::kHasMin) {
    // Blocks twice: by the sums as f16, and by what is left of them.
    uint32_t mins[2];
    weights.scales.mins(mins);
    if constexpr (kBlocks == 4) {
      mma8(Half(), min_products, mins[0], mins[1], load4(sums));
    } else {
      mma(Half(), min_products, {mins[0], mins[1], mins[0], mins[1]}, load4(sums),
          load4(sums + kBlocks * 2));
    }
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    float sum = weights.scales.row(i / 2) * products[i];
    if constexpr (F::kHasMin) {
      constexpr float kUnit = kCodeUnit / decltype(weights.scales)::kMinUnit / kSumUnit;
      sum -= weights.scales.row_min(i / 2) * (min_products[i] * kUnit);
    }
    totals[i] += (i % 2 ? scales.y : scales.x) * sum;
  }
}

// Where a thread's one result of 16 weight rows goes, and what is added to it. Fetched while the
// products are still being computed.
struct Finish {
  int row, weight_row;  // of the step; of the 16, for Gated of the gate
  bool mine;
  float bias[2] = {0, 0}, old = 0;

  __device__ Finish(const LinearLaunch& a, int64_t first) {
    const int thread = static_cast<int>(threadIdx.x);
    const bool gated = a.epilogue == Epilogue::Gated;
    const int results = gated ? tiles::kRows / 2 : tiles::kRows;
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

  // Adds up the warps' shares, [warp, row, kPartialRow], and writes the result out.
  template <class T>
  __device__ void write(const LinearLaunch& a, int64_t first, const float* partials) const {
    if (!mine) return;
    const auto sum_of = [&](int i) {
      float sum = bias[i];
#pragma unroll
      for (int warp = 0; warp < kWarps; ++warp) {
        sum += partials[(warp * a.rows + row) * kPartialRow + weight_row + i];
      }
      return sum;
    };
    if (a.epilogue == Epilogue::Gated) {
      const float value = activate(sum_of(0), a.activation) * sum_of(1);
      static_cast<T*>(a.out)[row * a.out_stride + (first + weight_row) / 2] = from_float<T>(value);
      return;
    }
    const int64_t at = row * a.out_stride + first + weight_row;
    if (a.epilogue == Epilogue::Store) {
      static_cast<T*>(a.out)[at] = from_float<T>(sum_of(0));
    } else {
      static_cast<float*>(a.out)[at] = old + sum_of(0);
    }
  }
};

template <class F, class T>
__device__ void consume(const LinearLaunch& a, const Layout& layout, const char* ring,
                        const int* group_at, float* partials, const Activations& activations,
                        uint64_t* full, uint64_t* empty) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  // Lanes without a row of their own take the last one's: their results go nowhere.
  const int row = min(lane / 4, a.rows - 1), first = lane % 4 * 2;
  const LaneActivations in = {
      reinterpret_cast<const char*>(activations.values + row * layout.activation_row) +
          lane % 4 * 16,
      activations.sums +
          (F::kHasMin ? row * (tiles::kPartCols / F::Scales::kCols * 4) + lane % 4 * 4 : first * 4),
      activations.scales + first};
  const int partial_floats = kWarps * a.rows * kPartialRow;
  Turn turn;
  for (int count = 0;; ++count) {
    barrier_wait(&full[turn.slot], turn.lap & 1);
    const int group = group_at[turn.slot];
    if (group == kNoMore) break;
    const int64_t first_row = int64_t{group} * tiles::kRows;
    const Finish finish(a, first_row);
    float totals[4] = {};
    for (int tile = 0; tile < layout.parts; tile += kWarps, turn.next(layout.slots)) {
      if (tile > 0) barrier_wait(&full[turn.slot], turn.lap & 1);
      if (tile + warp < layout.parts) {
        const char* record =
            ring + turn.slot * layout.slot_bytes + warp / F::kParts * F::kRecordBytes;
        multiply_part<F>(totals, record, warp % F::kParts, tile + warp, in);
      }
      __syncwarp();
      if (lane == 0) barrier_arrive(&empty[turn.slot]);
    }
    float* set = partials + (count & 1) * partial_floats + warp * a.rows * kPartialRow;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (first + i % 2 < a.rows)
        set[(first + i % 2) * kPartialRow + lane / 4 + i / 2 * 8] = totals[i];
    }
    consumers_meet();
    finish.write<T>(a, first_row, partials + (count & 1) * partial_floats);
  }
}

template <class F, class T>
__global__ void __launch_bounds__(kThreads, 1)
    gemv_q_sm90(__grid_constant__ const LinearLaunch a, __grid_constant__ const Layout layout) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ __align__(128) char shared[];
  __shared__ __align__(8) uint64_t full[kMostSlots], empty[kMostSlots];
  __shared__ int group_at[kMostSlots];
  __shared__ float scratch[kMostRows][kWarps];
  if (threadIdx.x < layout.slots) {
    barrier_init(&full[threadIdx.x], 1);
    barrier_init(&empty[threadIdx.x], kWarps);
    barrier_init_fence();
  }
  __syncthreads();
  let_next_kernel_start();

  if (threadIdx.x >= kConsumerThreads) {
    fetch(a, layout, shared, group_at, full, empty);
    return;
  }
  const Activations activations = {reinterpret_cast<__half*>(shared + layout.activations_at),
                                   reinterpret_cast<float*>(shared + layout.scales_at),
                                   shared + layout.sums_at};
  wait_for_kernel_ahead();
  if (a.norm_weight) {
    stage_normed<F>(a, layout, activations, scratch);
  } else {
    stage_rows<F, T>(a, layout, activations);
  }
  consumers_meet();
  consume<F, T>(a, layout, shared, group_at, reinterpret_cast<float*>(shared + layout.partials_at),
                activations, full, empty);
#endif
}

template <class F, class T>
void launch(const LinearLaunch& a, int multiprocessors, Stream stream) {
  const Layout layout = layout_for<F>(a, multiprocessors);
  SKALD_CUDA(cudaFuncSetAttribute(gemv_q_sm90<F, T>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  kMostBlockBytes));
  launch_kernel(gemv_q_sm90<F, T>,
                {dim3(multiprocessors), kThreads, static_cast<size_t>(layout.bytes), a.dependent},
                stream, a, layout);
}

}  // namespace

bool supports_gemv_q_sm90(const LinearLaunch& a, int compute_capability) {
  if (!kHasSm90a || compute_capability != 90 || a.rows > kMostRows) return false;
  if (a.type != DType::BF16 || (a.epilogue == Epilogue::Gated && a.outs % 2 != 0)) return false;
  bool fits = false;
  return tiles::dispatch(
             a.format,
             [&](auto f) { fits = layout_for<decltype(f)>(a, 1).slots >= kFewestSlots; }) &&
         fits;
}

void launch_gemv_q_sm90(const LinearLaunch& a, int multiprocessors, Stream stream) {
  check(a.ticket, "gemv_q_sm90 has a ticket");
  tiles::dispatch(a.format, [&](auto f) { launch<decltype(f), Bf16>(a, multiprocessors, stream); });
}

}  // namespace skald::cuda
