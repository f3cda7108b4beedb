// experts_few: products of chosen experts with up to 8 places each. The floor is the memory's
// speed: the bytes of the chosen experts' matrices, each read once.
//
// One block per multiprocessor takes one group of 16 weight rows after the other, whichever expert
// they belong to. Its 16 warps have slices of the columns. While a warp multiplies a part, its next
// part, of this group or of the next one, is on its way from memory straight into registers. The
// sums of the slices are added in shared memory. The order of every sum is the same for any number
// of places.
#include "cuda/kernels/device/launch.cuh"
#include "cuda/kernels/experts/experts_tile.cuh"
#include "cuda/kernels/experts/experts_weights.cuh"

namespace skald::cuda {
namespace {

constexpr int kThreads = 512;

#if SKALD_HAS_MMA

constexpr int kWarps = kThreads / 32;
constexpr int kPartialRow = 20;  // floats: 16, and padding so that no bank is used twice

struct Lists {
  ExpertTile tiles[kMostFewTiles];
  int rows_of[kMostFewChoices];  // the input row of each place
  int count;                     // number of tiles
};

// Lists the tiles of all experts. The first warp calls this.
__device__ inline void list_tiles(const Routing& r, Lists& lists) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (r.rows == 1) {
    for (int i = lane; i < r.used; i += 32) lists.tiles[i] = {__ldcg(r.chosen + i), i, 1};
    if (lane == 0) lists.count = r.used;
    return;
  }
  int before = 0;
#pragma unroll 4
  for (int base = 0; base < r.count; base += 32) {
    const bool real = base + lane < r.count;
    const int first = real ? __ldcg(r.begins + base + lane) : 0;
    const int end = real ? __ldcg(r.begins + base + lane + 1) : 0;
    const int tiles = (end - first + kFewPlaces - 1) / kFewPlaces;
    int sum = tiles;
    for (int offset = 1; offset < 32; offset *= 2) {
      const int other = __shfl_up_sync(~0u, sum, offset);
      if (lane >= offset) sum += other;
    }
    for (int i = 0; i < tiles; ++i) {
      const int at = first + i * kFewPlaces;
      lists.tiles[before + sum - tiles + i] = {base + lane, at, min(kFewPlaces, end - at)};
    }
    before += __shfl_sync(~0u, sum, 31);
  }
  if (lane == 0) lists.count = before;
}

#endif

template <class Part>
__global__ void __launch_bounds__(kThreads, 1)
    experts_few(__grid_constant__ const ExpertsLaunch a) {
#if SKALD_HAS_MMA
  using T = typename Part::Number;
  __shared__ Lists lists;
  __shared__ float partials[2][kWarps][kFewPlaces][kPartialRow];
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int g = lane / 4, c = lane % 4;
  const int parts = parts_of(a.ins), slices = slices_of(parts), together = kWarps / slices;
  const int slice = warp % slices, each = (parts - slice + slices - 1) / slices;
  const int groups = row_blocks(a, tiles::kRows);
  let_next_kernel_start();
  wait_for_kernel_ahead();
  if (warp == 0) {
    list_tiles(a.routing, lists);
  } else {
    for (int i = threadIdx.x - 32; i < a.routing.rows * a.routing.used; i += kThreads - 32) {
      lists.rows_of[i] = static_cast<int>(input_row(a, i));
    }
  }
  __syncthreads();

  // A unit is a group of weight rows with one tile of places. A block takes `together` units at a
  // time.
  const int units = lists.count * groups, stride = static_cast<int>(gridDim.x) * together;
  const int first_unit = static_cast<int>(blockIdx.x) * together;
  const auto load = [&](PartAndInput<Part>& to, int unit, int i) {
    unit = min(unit + warp / slices, units - 1);  // beyond the last unit: the last one again
    const ExpertTile tile = lists.tiles[unit / groups];
    typename Part::Rows rows;
    rows.set(a, tile.expert, int64_t{unit % groups} * tiles::kRows);
    // A lane without a place of its own reads the last place. Its results are not stored.
    const int64_t row = lists.rows_of[tile.first + min(g, tile.rows - 1)];
    to.load(rows, static_cast<const T*>(a.in) + row * a.ins, a.ins, slice + i * slices);
  };
  PartAndInput<Part> now, next;
  if (first_unit < units) load(now, first_unit, 0);
  int set = 0;
#pragma unroll 1
  for (int unit = first_unit; unit < units; unit += stride, set ^= 1) {
    float sums[4] = {};
#pragma unroll 1
    for (int i = 0; i < each; ++i) {
      if (i + 1 < each) {
        load(next, unit, i + 1);
      } else if (unit + stride < units) {
        load(next, unit + stride, 0);
      }
      now.multiply(sums);
      now = next;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) partials[set][warp][2 * c + i % 2][g + i / 2 * 8] = sums[i];
    // Two sets are enough: a warp that writes to this set again has passed the next unit's barrier,
    // and all warps have read this set before that one.
    __syncthreads();
    const int step = a.epilogue == Epilogue::Gated ? 2 : 1, results = tiles::kRows / step;
    for (int i = threadIdx.x; i < together * kFewPlaces * results; i += kThreads) {
      const int row = i % results * step, place = i / results % kFewPlaces;
      const int other = i / results / kFewPlaces, own = unit + other;
      if (own >= units) break;
      const ExpertTile tile = lists.tiles[own / groups];
      const int64_t out = int64_t{own % groups} * tiles::kRows + row;
      if (place >= tile.rows || out >= a.outs) continue;
      float sum = 0, up = 0;
#pragma unroll 4
      for (int s = 0; s < slices; ++s) {
        const float* at = &partials[set][other * slices + s][place][row];
        sum += at[0];
        up += at[step - 1];
      }
      store_result<T>(a, {tile.expert, tile.first + place, out}, sum, up);
    }
  }
#endif
}

}  // namespace

void launch_experts_few(const ExpertsLaunch& a, Stream stream) {
  dispatch_parts(a, [&](auto* part) {
    using Part = std::remove_pointer_t<decltype(part)>;
    launch_kernel(experts_few<Part>, {dim3(a.multiprocessors), kThreads, 0, a.dependent}, stream,
                  a);
  });
}

template <>
void launch_experts<kernel_id("experts_few")>(const ExpertsLaunch& launch, Stream stream) {
  launch_experts_few(launch, stream);
}

}  // namespace skald::cuda
