// experts_few: products of chosen experts with up to 8 places each, at best at the memory's speed:
// the bytes of the chosen experts' matrices, each read once.
//
// A block's eight warps have 16 weight rows of one expert each, and a slice of their columns; what
// is there of a warp's next 128 columns is on its way while these are multiplied. Weights go
// straight from memory into the registers of the matrix instruction, and slices meet in shared
// memory. The order of every sum is the same for any number of places.
#include "cuda/kernels/device/experts_tile.cuh"
#include "cuda/kernels/device/experts_weights.cuh"
#include "cuda/kernels/device/launch.cuh"

namespace skald::cuda {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / 32;
constexpr int kPlaces = 8;

template <class Part>
__global__ void __launch_bounds__(kThreads, 2)
    experts_few(__grid_constant__ const ExpertsLaunch a) {
#if SKALD_HAS_MMA
  using T = typename Part::Number;
  constexpr int kPartialRow = 20;  // floats: 16, and no bank twice
  __shared__ float partials[kWarps][kPlaces][kPartialRow];
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int g = lane / 4, c = lane % 4;
  const int parts = parts_of(a.ins), slices = slices_of(parts), groups = kWarps / slices;
  const int64_t first = int64_t{blockIdx.x} * groups * tiles::kRows;
  let_next_kernel_start();
  wait_for_kernel_ahead();
  const ExpertTile tile = find_tile<kPlaces>(a.routing, static_cast<int>(blockIdx.y));
  if (tile.rows == 0) return;

  typename Part::Rows rows;
  rows.set(a, tile.expert, first + warp / slices * tiles::kRows);
  // Lanes without a place of their own take the last one's: their results go nowhere.
  const T* in =
      static_cast<const T*>(a.in) + input_row(a, tile.first + min(g, tile.rows - 1)) * a.ins;
  PartAndInput<Part> now, next;
  int part = warp % slices;
  if (part < parts) now.load(rows, in, a.ins, part);
  float sums[4] = {};
#pragma unroll 2
  for (; part < parts; part += slices) {
    if (part + slices < parts) next.load(rows, in, a.ins, part + slices);
    now.multiply(sums);
    now = next;
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) partials[warp][2 * c + i % 2][g + i / 2 * 8] = sums[i];
  __syncthreads();
  const int step = a.epilogue == Epilogue::Gated ? 2 : 1, each = tiles::kRows / step;
  for (int i = threadIdx.x; i < groups * tile.rows * each; i += kThreads) {
    const int row = i % each * step, place = i / each % tile.rows, group = i / each / tile.rows;
    const int64_t out = first + group * tiles::kRows + row;
    if (out >= a.outs) continue;
    float sum = 0, up = 0;
    for (int slice = 0; slice < slices; ++slice) {
      const float* at = &partials[group * slices + slice][place][row];
      sum += at[0];
      up += at[step - 1];
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
  const dim3 blocks(
      static_cast<unsigned>(row_blocks(a, kWarps / slices_of(parts_of(a.ins)) * tiles::kRows)),
      static_cast<unsigned>(expert_tiles(a.routing, kPlaces)));
  dispatch_parts(a, [&](auto* part) {
    using Part = std::remove_pointer_t<decltype(part)>;
    launch_kernel(experts_few<Part>, {blocks, kThreads, 0, a.dependent}, stream, a);
  });
}

}  // namespace skald::cuda
