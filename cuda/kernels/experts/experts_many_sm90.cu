// experts_many with Hopper's warpgroup products, for weights of 16 bits.
//
// Both operands of the products lie in shared memory. A warpgroup fetches 64 columns a slot:
// weights by cp.async, which can swizzle plain rows; activations, already swizzled, by bulk copies.
#include "cuda/kernels/experts/experts_many_sm90.cuh"

namespace skald::cuda {
namespace {

constexpr int kWeightBytes = kManyRows * kPlacedRowBytes;
constexpr int kSlots = 5, kSlotBytes = kManySlotBytes + kWeightBytes;
constexpr int kLag = 2;  // slots in flight before the oldest must have arrived
static_assert(kSlots * kSlotBytes + kStageBytes + kManyAlign + 2 * kSlots * 8 <= kManySharedBytes);

#if SKALD_HAS_WGMMA

struct ManyRing {
  char* slots;  // activations, then weights
  float* stages;
  uint64_t *full, *empty;

  __device__ explicit ManyRing(char* dynamic) : slots(many_shared(dynamic)) {
    stages = reinterpret_cast<float*>(slots + kSlots * kSlotBytes);
    full = reinterpret_cast<uint64_t*>(slots + kSlots * kSlotBytes + kStageBytes);
    empty = full + kSlots;
  }
  __device__ void init() const {
    init_barriers(kSlots, [&](int i) {
      barrier_init(&full[i], 128 + 1);  // each thread's copies, and the bulk copy
      barrier_init(&empty[i], kManyReleases);
    });
  }
};

// The 128 fetching threads call it; `thread` is one of them. Each copies the same 16 bytes of every
// 16th weight row. Beyond the matrix it stores zeros.
template <class T>
__device__ void fetch(const ExpertsLaunch& a, const ManyRing& ring, int thread) {
  constexpr int kStep = 16, kEight = 8;
  const int row = thread / 8, eight = thread % 8;
  const uint32_t own = kManySlotBytes + row * kPlacedRowBytes + ((eight ^ row % 8) << 4);
  const PlacedLayout layout(a.routing.choices(), a.ins);
  RingAt<kSlots> at, arrived;
  int under_way = 0;
  const auto arrive = [&] {
    fence_for_products();
    barrier_arrive(&ring.full[arrived.slot]);
    arrived.advance();
    --under_way;
  };
  for (ManyItems items(a); !items.done();) {
    const ManyItem item = items.take();
    const T* const weight = reinterpret_cast<const T*>(expert_matrix(a, item.tile.expert)) +
                            (int64_t{item.row} + row) * a.ins + eight * kEight;
    const int rows = static_cast<int>(min(int64_t{kManyRows}, a.outs - item.row));
    for (int block = 0; block < layout.blocks; ++block) {
      char* const slot = ring.slots + at.slot * kSlotBytes;
      barrier_wait(&ring.empty[at.slot], at.parity ^ 1);
      if (thread == 0) {
        copy_window(layout, a, item, block, 1, slot, &ring.full[at.slot]);
      }
      __syncwarp();
      const int64_t col = int64_t{block} * kPlacedCols;
      const bool inside = col + eight * kEight < a.ins;
#pragma unroll
      for (int i = 0; i < kManyRows / kStep; ++i) {
        const bool valid = inside && row + i * kStep < rows;
        copy_async(shared_address(slot) + own + i * kStep * kPlacedRowBytes,
                   valid ? weight + i * kStep * a.ins + col : static_cast<const T*>(a.weight),
                   valid);
      }
      commit_copies();
      at.advance();
      if (++under_way > kLag) {
        wait_for_copies<kLag>();
        arrive();
      }
    }
  }
  wait_for_copies<0>();
  while (under_way > 0) arrive();
}

template <class T, int kPlaces>
__device__ void multiply(const ExpertsLaunch& a, const ManyRing& ring, RingAt<kSlots>& at,
                         ManySums<kPlaces>& sums) {
  const int group = static_cast<int>(threadIdx.x) / 128;
#pragma unroll
  for (float& sum : sums.d) sum = 0;
  const int blocks = static_cast<int>((a.ins + kPlacedCols - 1) / kPlacedCols);
  int before = -1;  // the last slot, whose products may still run
#pragma unroll 1
  for (int block = 0; block < blocks; ++block) {
    const uint32_t slot = shared_address(ring.slots) + at.slot * kSlotBytes;
    const uint32_t weights = slot + kManySlotBytes + group * 64 * kPlacedRowBytes;
    barrier_wait(&ring.full[at.slot], at.parity);
    // A branch for each number of steps: with one around the last steps alone ptxas adds fences.
    const auto products = [&](auto steps) {
      wgmma_fence();
#pragma unroll
      for (int k = 0; k < decltype(steps)::value; ++k) {
        wgmma_add(T(), sums.d, matrix_descriptor(weights + k * 32, 8 * kPlacedRowBytes, 0),
                  matrix_descriptor(slot + k * 32, 8 * kPlacedRowBytes, 0));
      }
      wgmma_commit();
    };
    constexpr int kSteps = kPlacedCols / 16;
    if (block * kPlacedCols + kPlacedCols / 2 < a.ins) {
      products(std::integral_constant<int, kSteps>());
    } else {  // nobody may have written columns beyond the row
      products(std::integral_constant<int, kSteps / 2>());
    }
    wgmma_wait<1>();
    if (before >= 0) release_window(&ring.empty[before]);
    before = at.slot;
    at.advance();
  }
  sums.finish();
  release_window(&ring.empty[before]);
}

#endif

template <class T>
__global__ void __launch_bounds__(kManyThreads, 1)
    experts_many_sm90(__grid_constant__ const ExpertsLaunch a) {
#if SKALD_HAS_WGMMA
  extern __shared__ char dynamic[];
  const ManyRing ring(dynamic);
  ring.init();
  meet_cluster();
  let_next_kernel_start();
  wait_for_kernel_ahead();
  if (threadIdx.x >= kManyMultiplying) {
    set_registers_down<kFetchRegisters>();
    fetch<T>(a, ring, static_cast<int>(threadIdx.x) - kManyMultiplying);
  } else {
    set_registers_up<kManyRegisters>();
    RingAt<kSlots> at;
    for (ManyItems items(a); !items.done();) {
      const ManyItem item = items.take();
      with_places(item.window(), [&]<int kPlaces>(Places<kPlaces>) {
        ManySums<kPlaces> sums;
        multiply<T>(a, ring, at, sums);
        store_many<T>(a, item, ring.stages, sums, NoFactors());
      });
    }
  }
  meet_cluster();
#endif
}

}  // namespace

void launch_experts_many_sm90(const ExpertsLaunch& a, Stream stream) {
  if (block_elems(a.format) > 1) return launch_experts_many_q_sm90(a, stream);
  launch_many(a.type == DType::F16 ? experts_many_sm90<Half> : experts_many_sm90<Bf16>, a, stream);
}

template <>
void launch_experts<kernel_id("experts_many_sm90")>(const ExpertsLaunch& launch, Stream stream) {
  launch_experts_many_sm90(launch, stream);
}

}  // namespace skald::cuda
