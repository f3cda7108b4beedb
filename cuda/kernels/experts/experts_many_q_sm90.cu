// experts_many_sm90 for block formats: weights become f16 in registers.
//
// Each of eight warps converts its 16 weight rows, from tiles in shared memory. These weights are
// the left operand of the products; the next 32 columns are converted while the last ones are
// multiplied. One warp fetches activations, 64 to 256 columns a slot; another fetches weights and
// sums of activations, 256 columns a slot. Activations are f16, times a power of two for each place
// (placed_rows.h), by which results are multiplied.
#include "cuda/kernels/experts/experts_many_sm90.cuh"
#include "cuda/kernels/tiles/lane_weights.cuh"

namespace skald::cuda {
namespace {

#if SKALD_HAS_WGMMA

template <class F>
struct ManyRings {
  static constexpr int kGroups = kManyRows / tiles::kRows;  // of 16 weight rows
  static constexpr int kRecords = kPlacedSumCols / F::kRecordCols;
  static constexpr int kGroupBytes = kRecords * F::kRecordBytes;
  static constexpr int kSumsAt = (kGroups * kGroupBytes + kManyAlign - 1) / kManyAlign * kManyAlign;
  static constexpr int kWeightBytes =
      kSumsAt + (kSumsApart<F> ? kMostTilePlaces * kPlacedSumBytes : 0);
  static constexpr int kWeightSlots = kWeightBytes > 28 * 1024 ? 3 : 4;
  static constexpr int kBarrierBytes = 256;
  static constexpr int kRoom = kManySharedBytes - kManyAlign - kStageBytes - kBarrierBytes;
  static constexpr int kSlots = (kRoom - kWeightSlots * kWeightBytes) / kManySlotBytes;
  static_assert(kSlots >= 4 && (2 * kSlots + 2 * kWeightSlots) * 8 <= kBarrierBytes);

  char *activations, *weights;
  float* stages;
  uint64_t *full, *empty;                  // of the activations' slots
  uint64_t *weights_full, *weights_empty;  // of the weights'

  __device__ explicit ManyRings(char* dynamic) : activations(many_shared(dynamic)) {
    weights = activations + kSlots * kManySlotBytes;
    char* const behind = weights + kWeightSlots * kWeightBytes;
    stages = reinterpret_cast<float*>(behind);
    full = reinterpret_cast<uint64_t*>(behind + kStageBytes);
    empty = full + kSlots;
    weights_full = empty + kSlots;
    weights_empty = weights_full + kWeightSlots;
  }
  __device__ void init() const {
    init_barriers(kSlots, [&](int i) {
      barrier_init(&full[i], 1);
      barrier_init(&empty[i], kManyReleases);
    });
    init_barriers(kWeightSlots, [&](int i) {
      barrier_init(&weights_full[i], 1);
      barrier_init(&weights_empty[i], kManyWarps);
    });
  }
};

// The number of blocks of 64 columns in a slot. With few places a block is multiplied faster than a
// copy arrives, so slots have several blocks.
SKALD_HD constexpr int slot_blocks(int places) {
  return places <= kMostTilePlaces / 4 ? 4 : places <= kMostTilePlaces / 2 ? 2 : 1;
}

template <class F>
__device__ void fetch_activations(const ExpertsLaunch& a, const ManyRings<F>& rings) {
  const PlacedLayout layout(a.routing.choices(), a.ins);
  const int blocks = static_cast<int>(layout.blocks);
  RingAt<ManyRings<F>::kSlots> at;
  for (ManyItems items(a); !items.done();) {
    const ManyItem item = items.take();
    const int each = slot_blocks(item.padded_rows());
    for (int block = 0; block < blocks; block += each) {
      lane_waits(&rings.empty[at.slot], at.parity ^ 1);
      copy_window(layout, a, item, block, min(each, blocks - block),
                  rings.activations + at.slot * kManySlotBytes, &rings.full[at.slot]);
      at.advance();
    }
  }
}

// A lane for each group of weight rows, and one for the sums of activations.
template <class F>
__device__ void fetch_weights(const ExpertsLaunch& a, const ManyRings<F>& rings) {
  using Rings = ManyRings<F>;
  const PlacedLayout layout(a.routing.choices(), a.ins);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int records = static_cast<int>((a.ins + F::kRecordCols - 1) / F::kRecordCols);
  const int last = (static_cast<int>(a.outs) - 1) / tiles::kRows;
  const uint64_t once = evict_first_policy(), again = evict_normal_policy();
  RingAt<Rings::kWeightSlots> at;
  for (ManyItems items(a); !items.done();) {
    const ManyItem item = items.take();
    // Rows beyond the matrix repeat its last ones.
    const int group = min(item.row / tiles::kRows + lane, last);
    const char* from =
        expert_matrix(a, item.tile.expert) + int64_t{group} * records * F::kRecordBytes;
    const int sum_bytes = kSumsApart<F> ? item.rows() * kPlacedSumBytes : 0;
    for (int record = 0; record < records; record += Rings::kRecords, from += Rings::kGroupBytes) {
      uint64_t* const full = &rings.weights_full[at.slot];
      char* const slot = rings.weights + at.slot * Rings::kWeightBytes;
      const int bytes = min(Rings::kRecords, records - record) * F::kRecordBytes;
      barrier_wait(&rings.weights_empty[at.slot], at.parity ^ 1);
      if (lane == 0) barrier_expect_bytes(full, Rings::kGroups * bytes + sum_bytes);
      __syncwarp();
      if (lane < Rings::kGroups) {
        bulk_copy(slot + lane * Rings::kGroupBytes, from, bytes, full, once);
      } else if (kSumsApart<F> && lane == Rings::kGroups) {
        bulk_copy(
            slot + Rings::kSumsAt,
            static_cast<const char*>(a.in) + layout.sums_of(item.base, record / Rings::kRecords),
            sum_bytes, full, again);
      }
      at.advance();
    }
  }
}

// A multiplying warp's position in both rings.
template <class F>
struct ManyAt {
  RingAt<ManyRings<F>::kSlots> activations;
  RingAt<ManyRings<F>::kWeightSlots> weights;
};

template <class F, int kPlaces>
__device__ void multiply(const ExpertsLaunch& a, const ManyRings<F>& rings, ManyAt<F>& at,
                         ManySums<kPlaces>& sums) {
  using Rings = ManyRings<F>;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (float& sum : sums.d) sum = 0;
  const int blocks = static_cast<int>((a.ins + kPlacedCols - 1) / kPlacedCols);
  constexpr int kPartBlocks = kPartCols / kPlacedCols, kStepBlocks = kPlacedSumCols / kPlacedCols;
  constexpr int kSlotBlocks = slot_blocks(kPlaces);
  uint32_t w[2][2][4];  // weights of two units of columns
  int before = -1;      // the last slot, whose products may still run
#pragma unroll 1
  for (int block = 0; block < blocks; block += kStepBlocks) {
    const char* const slot = rings.weights + at.weights.slot * Rings::kWeightBytes;
    const char* const mine = slot + warp * Rings::kGroupBytes;
    barrier_wait(&rings.weights_full[at.weights.slot], at.weights.parity);
    // Call it when the slot's last part is in registers. The product of minimums and sums, which
    // reads the slot too, belongs to the first unit and has ended by then.
    const auto release_weights = [&] {
      __syncwarp();
      if (lane == 0) barrier_arrive(&rings.weights_empty[at.weights.slot]);
    };
    uint32_t mins[4] = {};
    if constexpr (kSumsApart<F>) {
      uint32_t two[2];
      LaneWeights<F>::mins(two, mine, (blocks - block + 1) / kPartBlocks, lane);
      mins[0] = mins[2] = two[0], mins[1] = mins[3] = two[1];
    }
#pragma unroll
    for (int p = 0; p < kStepBlocks / kPartBlocks; ++p) {
      if (block + p * kPartBlocks >= blocks) break;
      LaneWeights<F> part;
      part.load(mine + p / F::kParts * F::kRecordBytes, p % F::kParts, lane);
      if (p > 0) release_weights();
#pragma unroll
      for (int s = 0; s < kPartBlocks; ++s) {
        constexpr int kUnits = kPlacedCols / kUnitCols;
        const int in_slot = (p * kPartBlocks + s) % kSlotBlocks;
        if (block + p * kPartBlocks + s >= blocks) break;
        const uint32_t rows = shared_address(rings.activations) +
                              at.activations.slot * kManySlotBytes +
                              in_slot * kPlaces * kPlacedRowBytes;
#pragma unroll
        for (int u = 0; u < kUnits; ++u) {
          const int unit = s * kUnits + u;
          uint32_t(&two)[2][4] = w[u];
          part.fragment(unit, 0, two[0]);
          part.fragment(unit, 1, two[1]);
          const bool first = in_slot == 0 && u == 0;
          if (first) barrier_wait(&rings.full[at.activations.slot], at.activations.parity);
          wgmma_fence();
          if constexpr (kSumsApart<F>) {
            if (p == 0 && unit == 0) {
              wgmma_rows(Half(), sums.d, mins,
                         narrow_matrix_descriptor(shared_address(slot + Rings::kSumsAt), 256));
            }
          }
#pragma unroll
          for (int m = 0; m < 2; ++m) {
            wgmma_rows(Half(), sums.d, two[m],
                       matrix_descriptor(rows + (u * 2 + m) * 32, 8 * kPlacedRowBytes, 0));
          }
          wgmma_commit();
          wgmma_wait<1>();
          if (first && before >= 0) release_window(&rings.empty[before]);
        }
        if (in_slot + 1 == kSlotBlocks || block + p * kPartBlocks + s + 1 == blocks) {
          before = at.activations.slot;
          at.activations.advance();
        }
      }
    }
    if (block + kPartBlocks >= blocks) release_weights();
    at.weights.advance();
  }
  sums.finish();
  release_window(&rings.empty[before]);
}

// The factors of a window's places, which lanes share out, and of the lane's two weight rows.
template <class F, int kPlaces>
struct ManyFactors {
  float places[kPlaces / 32], rows[2];

  // Reads them ahead of the products.
  __device__ ManyFactors(const ExpertsLaunch& a, const ManyItem& item) {
    const PlacedLayout layout(a.routing.choices(), a.ins);
    const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
    const float* const scales =
        reinterpret_cast<const float*>(static_cast<const char*>(a.in) + layout.scales) + item.base;
#pragma unroll
    for (int i = 0; i < kPlaces / 32; ++i) {
      places[i] = __ldcg(scales + min(i * 32 + lane, item.window() - 1));
    }
    const int64_t records = (a.ins + F::kRecordCols - 1) / F::kRecordCols;
    const int64_t group = min(int64_t{item.row} / tiles::kRows + warp, (a.outs - 1) / tiles::kRows);
    const char* const first =
        expert_matrix(a, item.tile.expert) + group * records * F::kRecordBytes;
#pragma unroll
    for (int half = 0; half < 2; ++half) rows[half] = LaneWeights<F>::row_unit(first, lane, half);
  }
  __device__ float of_lane(int set) const { return places[set]; }
  __device__ float of_row(int half) const { return rows[half]; }
};

#endif

template <class F>
__global__ void __launch_bounds__(kManyThreads, 1)
    experts_many_q_sm90(__grid_constant__ const ExpertsLaunch a) {
#if SKALD_HAS_WGMMA
  extern __shared__ char dynamic[];
  const ManyRings<F> rings(dynamic);
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  rings.init();
  meet_cluster();
  let_next_kernel_start();
  wait_for_kernel_ahead();
  if (warp >= kManyWarps) {
    set_registers_down<kFetchRegisters>();
    if (warp == kManyWarps && lane == 0) fetch_activations(a, rings);
    if (warp == kManyWarps + 1) fetch_weights(a, rings);
  } else {
    set_registers_up<kManyRegisters>();
    ManyAt<F> at;
    for (ManyItems items(a); !items.done();) {
      const ManyItem item = items.take();
      with_places(item.window(), [&]<int kPlaces>(Places<kPlaces>) {
        const ManyFactors<F, kPlaces> factors(a, item);
        ManySums<kPlaces> sums;
        multiply(a, rings, at, sums);
        store_many<Bf16>(a, item, rings.stages, sums, factors);
      });
    }
  }
  meet_cluster();
#endif
}

}  // namespace

void launch_experts_many_q_sm90(const ExpertsLaunch& a, Stream stream) {
  tiles::dispatch(a.format, [&](auto format) {
    launch_many(experts_many_q_sm90<decltype(format)>, a, stream);
  });
}

}  // namespace skald::cuda
