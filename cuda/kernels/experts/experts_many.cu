// experts_many: products of chosen experts with many places each, on the tensor cores of sm_80.
//
// A block has 128 weight rows of one expert and up to 64 of its places. Asynchronous copies bring
// activations into a ring in shared memory, 128 columns per slot. Each of the eight warps has 16
// weight rows, which it loads from memory straight into registers, a slot ahead. Blocks with the
// same weights are neighbours in the grid, so that the L2 cache has the weights for all but the
// first.
#include "cuda/kernels/device/launch.cuh"
#include "cuda/kernels/experts/experts_tile.cuh"
#include "cuda/kernels/experts/experts_weights.cuh"

namespace skald::cuda {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / 32;
constexpr int kRows = kWarps * tiles::kRows;
constexpr int kPlaces = 64;
constexpr int kSlots = 3;
constexpr int kUnitBytes = kUnitCols * 2, kSetBytes = kPlaces * kUnitBytes;
constexpr int kSlotBytes = kPartUnits * kSetBytes;
constexpr int kSumsRow = kRows + 4;  // floats: padded so that no two lanes use one bank
constexpr int kSharedBytes = kSlots * kSlotBytes;
static_assert(kPlaces * kSumsRow * 4 <= kSharedBytes);

#if SKALD_HAS_MMA

constexpr int kSets = kPlaces / 8;

__device__ inline void copy_8_bytes(uint32_t to, const void* from, bool valid) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(to), "l"(from),
               "r"(valid ? 8 : 0)
               : "memory");
}

// Copies one part of all places into a slot: for each 32 columns a row of 64 bytes, in the order in
// which load_unit() gives lanes their columns. `rows`: the input rows of the places.
template <class Part>
__device__ void stage(const ExpertsLaunch& a, const int* rows, int part, uint32_t slot) {
  using T = typename Part::Number;
  constexpr int kBytes = Part::kInterleaved ? 8 : 16, kNumbers = kBytes / 2;
  constexpr int kEach = kPartCols / kNumbers, kPieces = kUnitCols / kNumbers;
#pragma unroll
  for (int i = threadIdx.x; i < kPlaces * kEach; i += kThreads) {
    const int place = i / kEach, unit = i % kEach / kPieces, piece = i % kPieces;
    const int64_t col = int64_t{part} * kPartCols + unit * kUnitCols + piece * kNumbers;
    const bool valid = col < a.ins;
    const T* from = static_cast<const T*>(a.in) + rows[place] * a.ins + (valid ? col : 0);
    const uint32_t row = slot + unit * kSetBytes + place * kUnitBytes;
    if constexpr (Part::kInterleaved) {
      copy_8_bytes(row + piece % 4 * 16 + piece / 4 * 8, from, valid);
    } else {
      copy_async(row + piece * 16, from, valid);
    }
  }
}

template <class Part>
__device__ void multiply(float (&sums)[kSets][4], const Part& weights, const char* slot) {
  using T = typename Part::Number;
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int unit = 0; unit < kPartUnits; ++unit) {
    uint32_t w[2][4];
    weights.fragment(unit, 0, w[0]);
    weights.fragment(unit, 1, w[1]);
#pragma unroll
    for (int set = 0; set < kSets; ++set) {
      const uint4 x = load16(slot + unit * kSetBytes + set * 8 * kUnitBytes + lane * 16);
      mma(T(), sums[set], w[0], x.x, x.y);
      mma(T(), sums[set], w[1], x.z, x.w);
    }
  }
}

#endif

template <class Part>
__global__ void __launch_bounds__(kThreads, 2)
    experts_many(__grid_constant__ const ExpertsLaunch a) {
#if SKALD_HAS_MMA
  using T = typename Part::Number;
  extern __shared__ __align__(128) char ring[];
  __shared__ int rows_of[kPlaces];
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int g = lane / 4, c = lane % 4;
  let_next_kernel_start();
  wait_for_kernel_ahead();
  const ExpertBlock block = find_block<kPlaces>(a.routing, blockIdx.x, row_blocks(a, kRows));
  const ExpertTile& tile = block.tile;
  if (tile.rows == 0) return;
  const int64_t first = int64_t{block.rows} * kRows;
  // Places beyond the tile's end repeat its last place.
  if (threadIdx.x < kPlaces) {
    const int place = tile.first + min(static_cast<int>(threadIdx.x), tile.rows - 1);
    rows_of[threadIdx.x] = static_cast<int>(input_row(a, place));
  }
  __syncthreads();

  typename Part::Rows rows;
  rows.set(a, tile.expert, first + warp * tiles::kRows);
  const int parts = static_cast<int>((a.ins + kPartCols - 1) / kPartCols);
  const uint32_t ring_at = shared_address(ring);
  const auto fetch = [&](int part) {
    if (part < parts) stage<Part>(a, rows_of, part, ring_at + part % kSlots * kSlotBytes);
    commit_copies();
  };
  Part weights, next;
  for (int part = 0; part < kSlots - 1; ++part) fetch(part);
  weights.load(rows, 0);
  float sums[kSets][4] = {};
#pragma unroll 2
  for (int part = 0; part < parts; ++part) {
    wait_for_copies<kSlots - 2>();
    __syncthreads();  // all copies have arrived, and all warps have read the slot to be filled next
    fetch(part + kSlots - 1);
    next.load(rows, part + 1);
    multiply(sums, weights, ring + part % kSlots * kSlotBytes);
    weights = next;
  }
  wait_for_copies<0>();
  __syncthreads();

  float* to = reinterpret_cast<float*>(ring);
#pragma unroll
  for (int set = 0; set < kSets; ++set) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int place = 8 * set + 2 * c + i % 2, row = warp * tiles::kRows + g + i / 2 * 8;
      to[place * kSumsRow + row] = sums[set][i];
    }
  }
  __syncthreads();
  const int step = a.epilogue == Epilogue::Gated ? 2 : 1, each = kRows / step;
  for (int i = threadIdx.x; i < tile.rows * each; i += kThreads) {
    const int row = i % each * step, place = i / each;
    if (first + row >= a.outs) continue;
    const float* sum = to + place * kSumsRow + row;
    store_result<T>(a, {tile.expert, tile.first + place, first + row}, sum[0], sum[step - 1]);
  }
#endif
}

}  // namespace

void launch_experts_many(const ExpertsLaunch& a, Stream stream) {
  const dim3 blocks(expert_blocks(a, kPlaces, kRows));
  dispatch_parts(a, [&](auto* part) {
    using Part = std::remove_pointer_t<decltype(part)>;
    const auto kernel = experts_many<Part>;
    SKALD_CUDA(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes));
    launch_kernel(kernel, {blocks, kThreads, kSharedBytes, a.dependent}, stream, a);
  });
}

template <>
void launch_experts<kernel_id("experts_many")>(const ExpertsLaunch& launch, Stream stream) {
  launch_experts_many(launch, stream);
}

}  // namespace skald::cuda
