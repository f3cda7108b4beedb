// experts_many_sm90 for block formats: weights become bf16 in registers.
//
// A block has 128 weight rows of one expert and up to 128 of its places. Each of eight warps makes
// bf16 weights of its 16 rows, from tiles that it loads 128 columns ahead. These are the left
// operand of the products, and the next 16 columns become bf16 while the last ones are multiplied.
// Four more warps fetch activations into a ring. They store the pairs of each 16 columns in the
// order in which lanes have the columns of tiles: 0, 2, 4, 6, 1, 3, 5, 7.
#include "cuda/kernels/device/launch.cuh"
#include "cuda/kernels/device/wgmma.cuh"
#include "cuda/kernels/experts/experts_tile.cuh"
#include "cuda/kernels/experts/experts_weights.cuh"

namespace skald::cuda {
namespace {

constexpr int kGroups = 2;  // of 128 threads that multiply, beside the one that fetches
constexpr int kMultiplying = kGroups * 128, kThreads = kMultiplying + 128;
constexpr int kPlaces = 128, kRows = kGroups * 64;
constexpr int kCols = 64, kRowBytes = kCols * 2;
constexpr int kSlotBytes = kPlaces * kRowBytes;
constexpr int kSlots = 5;
constexpr int kSumsRow = kRows + 4;  // floats: padded so that no two lanes use one bank
constexpr int kSharedBytes = kSlots * kSlotBytes + 1024;
static_assert(kPlaces * kSumsRow * 4 <= kSlots * kSlotBytes);

#if SKALD_HAS_WGMMA

constexpr int kLag = 2;  // slots that may be under way before the oldest is waited for

__device__ inline void copy_4_bytes(uint32_t to, const void* from, bool valid) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from),
               "r"(valid ? 4 : 0)
               : "memory");
}

// One of the four warps that fetch; it has 32 places. A lane copies the same pair of columns of
// each place.
__device__ inline void fetch(const ExpertsLaunch& a, const ExpertTile& tile, int warp,
                             uint32_t ring, uint64_t* full, uint64_t* empty) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  // Places beyond the tile repeat its last one.
  const int place = tile.first + min(warp * 32 + lane, tile.rows - 1);
  const int row_of_lane = static_cast<int>(input_row(a, place));
  const int pair = lane % 8, at = lane / 8 * 8 + pair % 2 * 4 + pair / 2;
  const uint32_t to = ring + warp * 32 * kRowBytes + at % 4 * 4;
  const Bf16* in = static_cast<const Bf16*>(a.in) + lane * 2;
  const int slots = static_cast<int>((a.ins + kCols - 1) / kCols);
  for (int item = 0; item < slots + kLag; ++item) {
    if (item < slots) {
      const int slot = item % kSlots;
      if (item >= kSlots) barrier_wait(&empty[slot], (item / kSlots - 1) & 1);
      const int64_t col = int64_t{item} * kCols;
      const bool inside = col + lane * 2 < a.ins;
      const Bf16* from = in + (inside ? col : 0);
      const uint32_t slot_at = to + slot * kSlotBytes;
#pragma unroll
      for (int i = 0; i < 32; ++i) {
        const int row = __shfl_sync(~0u, row_of_lane, i);
        copy_4_bytes(slot_at + i * kRowBytes + ((at / 4 ^ i % 8) << 4), from + row * a.ins, inside);
      }
    }
    commit_copies();
    if (item >= kLag) {
      wait_for_copies<kLag>();
      fence_for_products();
      barrier_arrive(&full[(item - kLag) % kSlots]);
    }
  }
}

#endif

template <class Part>
__global__ void __launch_bounds__(kThreads, 1)
    experts_many_q_sm90(__grid_constant__ const ExpertsLaunch a) {
#if SKALD_HAS_WGMMA
  extern __shared__ char dynamic[];
  __shared__ __align__(8) uint64_t full[kSlots], empty[kSlots];
  char* const shared = dynamic + (1024 - shared_address(dynamic) % 1024) % 1024;
  const uint32_t ring = shared_address(shared);
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  if (threadIdx.x == 0) {
    for (int i = 0; i < kSlots; ++i) {
      barrier_init(&full[i], 128);
      barrier_init(&empty[i], kMultiplying / 32);
    }
  }
  __syncthreads();
  let_next_kernel_start();
  wait_for_kernel_ahead();
  const ExpertBlock block = find_block<kPlaces>(a.routing, blockIdx.x, row_blocks(a, kRows));
  const ExpertTile& tile = block.tile;
  if (tile.rows == 0) return;
  const int64_t first = int64_t{block.rows} * kRows;
  if (warp >= kMultiplying / 32) {
    fetch(a, tile, warp - kMultiplying / 32, ring, full, empty);
    return;
  }

  typename Part::Rows rows;
  rows.set(a, tile.expert, first + warp * tiles::kRows);
  Part now, next;
  now.load(rows, 0);
  float sums[kPlaces / 2];
#pragma unroll
  for (float& sum : sums) sum = 0;
  uint32_t w[2][4];
  const int slots = static_cast<int>((a.ins + kCols - 1) / kCols);
  constexpr int kSteps = kCols / 16, kPartSlots = kPartCols / kCols;
#pragma unroll 1
  for (int item = 0; item < slots; item += kPartSlots) {
    next.load(rows, item / kPartSlots + 1);
#pragma unroll
    for (int i = 0; i < kPartSlots; ++i) {
      if (item + i >= slots) break;
      const uint32_t at = ring + (item + i) % kSlots * kSlotBytes;
#pragma unroll
      for (int k = 0; k < kSteps; ++k) {
        const int step = i * kSteps + k;  // of the part
        uint32_t(&mine)[4] = w[step % 2];
        now.fragment(step / 2, step % 2, mine);
        if (k == 0) barrier_wait(&full[(item + i) % kSlots], (item + i) / kSlots & 1);
        wgmma_fence();
        wgmma_rows(Bf16(), sums, mine, matrix_descriptor(at + k * 32, 8 * kRowBytes, 0));
        wgmma_commit();
        wgmma_wait<1>();
        if (k == 0 && item + i > 0 && lane == 0) barrier_arrive(&empty[(item + i - 1) % kSlots]);
      }
    }
    now = next;
  }
  wgmma_wait<0>();
  named_barrier<1, kMultiplying>();  // all warps have read the ring

  float* to = reinterpret_cast<float*>(shared);
  const int g = lane / 4, c = lane % 4;
#pragma unroll
  for (int i = 0; i < kPlaces / 2; ++i) {
    const int row = warp * tiles::kRows + g + i % 4 / 2 * 8;
    to[(i / 4 * 8 + 2 * c + i % 2) * kSumsRow + row] = sums[i];
  }
  named_barrier<1, kMultiplying>();
  const int step = a.epilogue == Epilogue::Gated ? 2 : 1, each = kRows / step;
  const int row = static_cast<int>(threadIdx.x) % each * step;
  if (first + row >= a.outs) return;
  for (int place = static_cast<int>(threadIdx.x) / each; place < tile.rows;
       place += kMultiplying / each) {
    const float* sum = to + place * kSumsRow + row;
    store_result<Bf16>(a, tile.first + place, first + row, sum[0], sum[step - 1]);
  }
#endif
}

}  // namespace

void launch_experts_many_q_sm90(const ExpertsLaunch& a, Stream stream) {
  const dim3 blocks(expert_blocks(a, kPlaces, kRows));
  tiles::dispatch(a.format, [&](auto format) {
    const auto kernel = experts_many_q_sm90<TilePart<decltype(format)>>;
    SKALD_CUDA(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes));
    launch_kernel(kernel, {blocks, kThreads, kSharedBytes, a.dependent}, stream, a);
  });
}

}  // namespace skald::cuda
