// experts_few: products of chosen experts with up to 8 places each, at best at the memory's speed:
// the bytes of the chosen experts' matrices, each read once.
//
// A block has 32 weight rows of one expert; its eight warps take turns at the columns, 128 at a
// time, weights straight from memory into the registers of the matrix instruction, and their sums
// meet in shared memory in the end. The order of every sum is the same for any number of places.
#include "cuda/kernels/device/experts_tile.cuh"
#include "cuda/kernels/device/experts_weights.cuh"
#include "cuda/kernels/device/launch.cuh"

namespace skald::cuda {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / 32;
constexpr int kPlaces = 8;
constexpr int kGroups = 2;       // of 16 weight rows
constexpr int kPartialRow = 20;  // floats: 16, and no bank twice

template <class Part>
__global__ void __launch_bounds__(kThreads, 2)
    experts_few(__grid_constant__ const ExpertsLaunch a) {
#if SKALD_HAS_MMA
  using T = typename Part::Number;
  __shared__ float partials[kWarps][kGroups][kPlaces][kPartialRow];
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int g = lane / 4, c = lane % 4;
  const int64_t first = int64_t{blockIdx.x} * kGroups * tiles::kRows;
  let_next_kernel_start();
  wait_for_kernel_ahead();
  const ExpertTile tile = find_tile<kPlaces>(a.routing, static_cast<int>(blockIdx.y));
  if (tile.rows == 0) return;

  typename Part::Rows rows[kGroups];
#pragma unroll
  for (int group = 0; group < kGroups; ++group) {
    rows[group].set(a, tile.expert, first + group * tiles::kRows);
  }
  // Lanes without a place of their own take the last one's: their results go nowhere.
  const T* in = static_cast<const T*>(a.in) +
                input_row(a, tile.first + min(g, tile.rows - 1)) * a.ins;
  const int parts = static_cast<int>((a.ins + kPartCols - 1) / kPartCols);
  float sums[kGroups][4] = {};
  for (int part = warp; part < parts; part += kWarps) {
    Part weights[kGroups];
#pragma unroll
    for (int group = 0; group < kGroups; ++group) weights[group].load(rows[group], part);
    uint4 x[kPartUnits];
#pragma unroll
    for (int unit = 0; unit < kPartUnits; ++unit) {
      const int64_t col = int64_t{part} * kPartCols + unit * kUnitCols;
      x[unit] = col < a.ins ? load_unit<Part>(in + col) : uint4{0, 0, 0, 0};
    }
#pragma unroll
    for (int unit = 0; unit < kPartUnits; ++unit) {
#pragma unroll
      for (int group = 0; group < kGroups; ++group) {
        uint32_t w[4];
        weights[group].fragment(unit, 0, w);
        mma(T(), sums[group], w, x[unit].x, x[unit].y);
        weights[group].fragment(unit, 1, w);
        mma(T(), sums[group], w, x[unit].z, x[unit].w);
      }
    }
  }
#pragma unroll
  for (int group = 0; group < kGroups; ++group) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      partials[warp][group][2 * c + i % 2][g + i / 2 * 8] = sums[group][i];
    }
  }
  __syncthreads();
  const int step = a.epilogue == Epilogue::Gated ? 2 : 1, each = tiles::kRows / step;
  for (int i = threadIdx.x; i < kGroups * tile.rows * each; i += kThreads) {
    const int row = i % each * step, place = i / each % tile.rows, group = i / each / tile.rows;
    const int64_t out = first + group * tiles::kRows + row;
    if (out >= a.outs) continue;
    float sum = 0, up = 0;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) {
      sum += partials[w][group][place][row];
      up += partials[w][group][place][row + step - 1];
    }
    store_result<T>(a, tile.first + place, out, sum, up);
  }
#endif
}

}  // namespace

bool supports_experts_few(const ExpertsLaunch& a, int compute_capability) {
  return suits_parts(a, compute_capability);
}

void launch_experts_few(const ExpertsLaunch& a, Stream stream) {
  constexpr int64_t kRows = kGroups * tiles::kRows;
  const dim3 blocks(static_cast<unsigned>((a.outs + kRows - 1) / kRows),
                    static_cast<unsigned>(expert_tiles(a.routing, kPlaces)));
  dispatch_parts(a, [&](auto* part) {
    using Part = std::remove_pointer_t<decltype(part)>;
    launch_kernel(experts_few<Part>, {blocks, kThreads, 0, a.dependent}, stream, a);
  });
}

}  // namespace skald::cuda
