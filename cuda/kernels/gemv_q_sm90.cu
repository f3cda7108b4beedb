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
#include "cuda/kernels/device/number.cuh"
#include "cuda/kernels/device/ptx.cuh"
#include "cuda/kernels/device/tile_product.cuh"
#include "cuda/kernels/device/tile_rows.cuh"
#include "cuda/kernels/linear.h"

namespace skald::cuda {
namespace {

constexpr int kConsumerThreads = kWarps * 32;
constexpr int kStagingThreads = kConsumerThreads + 32;  // and the finisher
constexpr int kThreads = kStagingThreads + 32;          // and the producer
constexpr int kTileCols = kWarps * tiles::kPartCols;
constexpr int kFewestSlots = 3, kMostSlots = 12;
constexpr int kMostSets = 4;  // of partial sums

// Where a group has few tiles, two teams of 8 warps take turns at groups, and a warp takes two
// parts of a tile: half as many partial sums and meetings.
constexpr int kMostTeams = 2, kMostTeamTiles = 2;

// See gemv_sm90: more than half of the shared memory, and little enough for attention beside it.
constexpr int kBlockBytes = 160 * 1024;
constexpr int kMostBlockBytes = 226 * 1024;

constexpr int kPartialRow = 20;  // floats: 16, and no bank twice

// Shared memory: the ring, sets of partial sums, the activations, their scales (a part's 8 rows
// together) and their sums: see Activations.
struct Layout {
  int parts;    // of a row of the matrix
  int records;  // of a group of rows
  int record_bytes, tile_records;
  int tiles;  // of a group
  int teams;
  int slots, slot_bytes;
  int sets, set_floats;
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

  layout.tiles = (layout.parts + kWarps - 1) / kWarps;
  layout.teams = layout.tiles <= kMostTeamTiles ? kMostTeams : 1;
  layout.sets = a.rows <= 4 || layout.teams > 1 ? kMostSets : kMostSets - 1;
  layout.set_floats = kWarps / layout.teams * a.rows * kPartialRow;
  const int partials = layout.sets * layout.set_floats * 4;
  layout.activation_row = layout.parts * tiles::kPartCols + 32;
  const int64_t activations = int64_t{a.rows} * layout.activation_row * 2;
  const int scales = layout.parts * kMostRows * 4;
  const int sums = layout.parts * (kSumsByProduct<F> ? a.rows : kMostRows) *
                   (tiles::kPartCols / F::Scales::kCols) * 4;
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
  // At most as many as there are.
  __device__ void skip(int count, int slots) {
    slot += count;
    if (slot >= slots) {
      slot -= slots;
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
  // Each team waits where its next group would begin.
  for (int team = 0; team < layout.teams; ++team) {
    if (turn.lap > 0) barrier_wait(&empty[turn.slot], (turn.lap - 1) & 1);
    if (elect_lane()) {
      group_at[turn.slot] = kNoMore;
      barrier_arrive(&full[turn.slot]);
    }
    __syncwarp();
    if (layout.teams > 1) turn.skip(layout.tiles, layout.slots);
  }
}

// What passes between consumers and finisher: a ring of sets of partial sums.
struct Sets {
  float* partials;  // [sets, warp, row, kPartialRow]
  int* groups;      // [sets]
  uint64_t *begun, *ready, *drained;
};

// Adds up the warps' shares and writes results out. For one warp: a lane has the results of weight
// row lane % 16 for every second row.
template <class T>
__device__ void finish(const LinearLaunch& a, const Layout& layout, const Sets& sets,
                       const float (*squares)[kWarps]) {
  constexpr int kEach = kMostRows / 2, kTogether = 8;
  const int lane = static_cast<int>(threadIdx.x) % 32, weight_row = lane % tiles::kRows;
  const bool gated = a.epilogue == Epilogue::Gated;
  const int warps = kWarps / layout.teams, first_row = lane / tiles::kRows;
  float norms[kEach];
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const int row = first_row + 2 * i;
    norms[i] = 1;
    if (!a.norm_weight || row >= a.rows) continue;
    float sum = 0;
#pragma unroll
    for (int warp = 0; warp < kWarps; ++warp) sum += squares[row][warp];
    norms[i] = rsqrtf(sum / static_cast<float>(a.ins) + a.norm_eps);
  }
  const float* partials = sets.partials + first_row * kPartialRow + weight_row;
  for (Turn turn;; turn.next(layout.sets)) {
    barrier_wait(&sets.begun[turn.slot], turn.lap & 1);
    const int group = sets.groups[turn.slot];
    if (group == kNoMore) break;
    const int64_t weight = int64_t{group} * tiles::kRows + weight_row;
    const bool inside = weight < a.outs;
    const float bias = a.bias && inside ? __ldg(a.bias + weight) : 0;
    float old[kEach] = {}, sums[kEach] = {};
    if (a.epilogue == Epilogue::AddTo && inside) {
      const float* out = static_cast<const float*>(a.out) + weight;
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        const int row = first_row + 2 * i;
        if (row < a.rows) old[i] = __ldcg(out + row * a.out_stride);
      }
    }
    barrier_wait(&sets.ready[turn.slot], turn.lap & 1);
    const float* set = partials + turn.slot * layout.set_floats;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int row = first_row + 2 * i;
      if (2 * i >= a.rows) break;
      if (row < a.rows) {
        float half[2] = {0, 0};
#pragma unroll 1
        for (int warp = 0; warp < warps; warp += kTogether) {
#pragma unroll
          for (int n = 0; n < kTogether; ++n) {
            half[n % 2] += set[((warp + n) * a.rows + 2 * i) * kPartialRow];
          }
        }
        sums[i] = (half[0] + half[1]) * norms[i] + bias;
      }
    }
    __syncwarp();
    if (lane == 0) barrier_arrive(&sets.drained[turn.slot]);
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int row = first_row + 2 * i;
      if (2 * i >= a.rows) break;
      const float up = gated ? __shfl_down_sync(~0u, sums[i], 1) : 0;
      if (row >= a.rows || !inside) continue;
      const int64_t at = row * a.out_stride + weight;
      if (gated) {
        if (lane % 2 == 0) {
          static_cast<T*>(a.out)[row * a.out_stride + weight / 2] =
              from_float<T>(activate(sums[i], a.activation) * up);
        }
      } else if (a.epilogue == Epilogue::Store) {
        static_cast<T*>(a.out)[at] = from_float<T>(sums[i]);
      } else {
        static_cast<float*>(a.out)[at] = old[i] + a.scale * sums[i];
      }
    }
  }
}

template <class F, int kTeams>
__device__ void consume(const LinearLaunch& a, const Layout& layout, const char* ring,
                        const int* group_at, const Sets& sets, const Activations& activations,
                        uint64_t* full_at, uint64_t* empty_at) {
  constexpr int kTeamWarps = kWarps / kTeams, kParts = kTeams;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int team = static_cast<int>(threadIdx.x) / (32 * kTeamWarps);
  const int warp = static_cast<int>(threadIdx.x) / 32 % kTeamWarps;
  const uint32_t full = held_address(full_at), empty = held_address(empty_at);
  const uint32_t drained = held_address(sets.drained), ready = held_address(sets.ready);
  // Lanes without a row of their own take the last one's: their results go nowhere.
  const int row = min(lane / 4, a.rows - 1), first = lane % 4 * 2;
  constexpr int kBlockSums = tiles::kPartCols / F::Scales::kCols * 4;  // bytes
  const LaneActivations in = {
      reinterpret_cast<const char*>(activations.values + row * layout.activation_row) +
          lane % 4 * 16,
      activations.sums + (kSumsByProduct<F> ? row * kBlockSums + lane % 4 * 4 : first * 4),
      kBlockSums * (kSumsByProduct<F> ? a.rows : kMostRows), activations.scales + first};
  const char* records = ring + warp * kParts / F::kParts * F::kRecordBytes;
  const int part_of_record = warp * kParts % F::kParts;
  float* partials = sets.partials + (warp * a.rows + first) * kPartialRow + lane / 4;
  const int mine = min(a.rows - first, 2);  // of the rows of this lane's totals
  Turn turn, set;
  if (team > 0) {
    turn.skip(layout.tiles, layout.slots);
    set.next(layout.sets);
  }
  for (;;) {
    barrier_wait(full + turn.slot * 8, turn.lap & 1);
    const int group = group_at[turn.slot];
    if (warp == 0) {
      if (set.lap > 0) barrier_wait(drained + set.slot * 8, (set.lap - 1) & 1);
      if (lane == 0) {
        sets.groups[set.slot] = group;
        barrier_arrive(&sets.begun[set.slot]);
      }
    }
    if (group == kNoMore) break;
    float totals[4] = {};
#pragma unroll 1
    for (int part = warp * kParts;;) {
      multiply_parts<F, kParts>(totals, records + turn.slot * layout.slot_bytes, part_of_record,
                                part, layout.parts, in);
      __syncwarp();
      if (lane == 0) barrier_arrive(empty + turn.slot * 8);
      turn.next(layout.slots);
      part += kWarps;
      if (part - warp * kParts >= layout.parts) break;
      barrier_wait(full + turn.slot * 8, turn.lap & 1);
    }
    if (set.lap > 0) barrier_wait(drained + set.slot * 8, (set.lap - 1) & 1);
    float* to = partials + set.slot * layout.set_floats;
    if (mine > 0) to[0] = totals[0], to[8] = totals[2];
    if (mine > 1) to[kPartialRow] = totals[1], to[kPartialRow + 8] = totals[3];
    __syncwarp();
    if (lane == 0) barrier_arrive(ready + set.slot * 8);
    set.skip(kTeams, layout.sets);
    if (kTeams > 1) turn.skip(layout.tiles, layout.slots);
  }
}

template <class F, class T>
__global__ void __launch_bounds__(kThreads, 1)
    gemv_q_sm90(__grid_constant__ const LinearLaunch a, __grid_constant__ const Layout layout) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ __align__(128) char shared[];
  __shared__ __align__(8) uint64_t full[kMostSlots], empty[kMostSlots];
  __shared__ __align__(8) uint64_t begun[kMostSets], ready[kMostSets], drained[kMostSets];
  __shared__ int group_at[kMostSlots], set_groups[kMostSets];
  __shared__ float squares[kMostRows][kWarps];
  if (threadIdx.x < layout.slots) {
    barrier_init(&full[threadIdx.x], 1);
    barrier_init(&empty[threadIdx.x], kWarps / layout.teams);
    barrier_init_fence();
  } else if (threadIdx.x >= kMostSlots && threadIdx.x < kMostSlots + layout.sets) {
    const unsigned set = threadIdx.x - kMostSlots;
    barrier_init(&begun[set], 1);
    barrier_init(&ready[set], kWarps / layout.teams);
    barrier_init(&drained[set], 1);
  }
  __syncthreads();
  let_next_kernel_start();

  if (threadIdx.x >= kStagingThreads) {
    fetch(a, layout, shared, group_at, full, empty);
    return;
  }
  const Sets sets = {reinterpret_cast<float*>(shared + layout.partials_at), set_groups, begun,
                     ready, drained};
  if (threadIdx.x >= kConsumerThreads) {
    wait_for_kernel_ahead();
    named_barrier<1, kStagingThreads>();
    finish<T>(a, layout, sets, squares);
    return;
  }
  const Activations activations = {a.rows,
                                   layout.parts,
                                   reinterpret_cast<__half*>(shared + layout.activations_at),
                                   layout.activation_row,
                                   reinterpret_cast<float*>(shared + layout.scales_at),
                                   shared + layout.sums_at,
                                   squares};
  if (a.norm_weight) {
    Stage<F, T, true>{a, activations}.run();
  } else {
    Stage<F, T, false>{a, activations}.run();
  }
  named_barrier<1, kStagingThreads>();
  if (layout.teams > 1) {
    consume<F, kMostTeams>(a, layout, shared, group_at, sets, activations, full, empty);
  } else {
    consume<F, 1>(a, layout, shared, group_at, sets, activations, full, empty);
  }
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
