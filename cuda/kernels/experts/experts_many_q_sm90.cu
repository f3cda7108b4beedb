// experts_many_sm90 for block formats: weights become bf16 in registers.
//
// A block has 128 weight rows of one expert and up to 128 of its places. Each of eight warps
// converts its 16 rows to bf16, from tiles that it loads 128 columns ahead. These weights are the
// left operand of the products; the next 16 columns are converted while the last ones are
// multiplied. Four more warps fetch activations into a ring. They store the pairs of each 16
// columns in the order in which lanes have the columns of tiles: 0, 2, 4, 6, 1, 3, 5, 7.
#include "cuda/kernels/experts/experts_many_sm90.cuh"

namespace skald::cuda {
namespace {

constexpr int kRows = kManyGroups * 64;
constexpr int kSlots = 5, kSlotBytes = kManyPlaces * kManyRowBytes;
constexpr int kSumsRow = kManySumsRow<kRows>;
static_assert(kManyPlaces * kSumsRow * 4 <= kSlots * kSlotBytes);

#if SKALD_HAS_WGMMA

__device__ inline void copy_4_bytes(uint32_t to, const void* from, bool valid) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from),
               "r"(valid ? 4 : 0)
               : "memory");
}

// The work of one of the four fetching warps, which has 32 places. A lane copies the same pair of
// columns of each place.
__device__ inline void fetch(const ExpertsLaunch& a, const ExpertTile& tile, int warp,
                             uint32_t ring, uint64_t* full, uint64_t* empty) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  // Places beyond the tile's end repeat its last place.
  const int place = tile.first + min(warp * 32 + lane, tile.rows - 1);
  const int row_of_lane = static_cast<int>(input_row(a, place));
  const int pair = lane % 8, at = lane / 8 * 8 + pair % 2 * 4 + pair / 2;
  const uint32_t to = ring + warp * 32 * kManyRowBytes + at % 4 * 4;
  const Bf16* in = static_cast<const Bf16*>(a.in) + lane * 2;
  const int items = static_cast<int>((a.ins + kManyCols - 1) / kManyCols);
  fetch_many<kSlots>(items, full, empty, [&](int item, int slot) {
    const int64_t col = int64_t{item} * kManyCols;
    const bool inside = col + lane * 2 < a.ins;
    const Bf16* from = in;
    if (inside) from += col;
    const uint32_t slot_at = to + slot * kSlotBytes;
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      const int row = __shfl_sync(~0u, row_of_lane, i);
      copy_4_bytes(slot_at + i * kManyRowBytes + ((at / 4 ^ i % 8) << 4), from + row * a.ins,
                   inside);
    }
  });
}

#endif

template <class Part>
__global__ void __launch_bounds__(kManyThreads, 1)
    experts_many_q_sm90(__grid_constant__ const ExpertsLaunch a) {
#if SKALD_HAS_WGMMA
  extern __shared__ char dynamic[];
  __shared__ __align__(8) uint64_t full[kSlots], empty[kSlots];
  char* const shared = many_shared(dynamic);
  const uint32_t ring = shared_address(shared);
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  init_many_slots<kSlots>(full, empty);
  __syncthreads();
  let_next_kernel_start();
  wait_for_kernel_ahead();
  const ExpertBlock block = find_block<kManyPlaces>(a.routing, blockIdx.x, row_blocks(a, kRows));
  const ExpertTile& tile = block.tile;
  if (tile.rows == 0) return;
  const int64_t first = int64_t{block.rows} * kRows;
  if (warp >= kManyMultiplying / 32) {
    fetch(a, tile, warp - kManyMultiplying / 32, ring, full, empty);
    return;
  }

  typename Part::Rows rows;
  rows.set(a, tile.expert, first + warp * tiles::kRows);
  Part now, next;
  now.load(rows, 0);
  float sums[kManyPlaces / 2];
#pragma unroll
  for (float& sum : sums) sum = 0;
  uint32_t w[2][4];
  const int items = static_cast<int>((a.ins + kManyCols - 1) / kManyCols);
  constexpr int kSteps = kManyCols / 16, kPartSlots = kPartCols / kManyCols;
#pragma unroll 1
  for (int item = 0; item < items; item += kPartSlots) {
    next.load(rows, item / kPartSlots + 1);
#pragma unroll
    for (int i = 0; i < kPartSlots; ++i) {
      if (item + i >= items) break;
      const uint32_t at = ring + (item + i) % kSlots * kSlotBytes;
#pragma unroll
      for (int k = 0; k < kSteps; ++k) {
        const int step = i * kSteps + k;  // step of the part
        uint32_t(&mine)[4] = w[step % 2];
        now.fragment(step / 2, step % 2, mine);
        if (k == 0) barrier_wait(&full[(item + i) % kSlots], (item + i) / kSlots & 1);
        wgmma_fence();
        wgmma_rows(Bf16(), sums, mine, matrix_descriptor(at + k * 32, 8 * kManyRowBytes, 0));
        wgmma_commit();
        wgmma_wait<1>();
        if (k == 0 && item + i > 0 && lane == 0) barrier_arrive(&empty[(item + i - 1) % kSlots]);
      }
    }
    now = next;
  }
  wgmma_wait<0>();
  named_barrier<1, kManyMultiplying>();  // all warps have read the ring

  float* to = reinterpret_cast<float*>(shared);
  const int g = lane / 4, c = lane % 4;
#pragma unroll
  for (int i = 0; i < kManyPlaces / 2; ++i) {
    const int row = warp * tiles::kRows + g + i % 4 / 2 * 8;
    to[(i / 4 * 8 + 2 * c + i % 2) * kSumsRow + row] = sums[i];
  }
  named_barrier<1, kManyMultiplying>();
  store_many<Bf16, kRows>(a, tile, first, to);
#endif
}

}  // namespace

void launch_experts_many_q_sm90(const ExpertsLaunch& a, Stream stream) {
  tiles::dispatch(a.format, [&](auto format) {
    launch_many(experts_many_q_sm90<TilePart<decltype(format)>>, kRows,
                many_shared_bytes(kSlots, kSlotBytes), a, stream);
  });
}

}  // namespace skald::cuda
