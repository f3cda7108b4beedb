// place_rows: copies rows of activations to their places, and lists the tiles of places. The floor
// is the memory's speed: each place is written once; rows are read from the L2 cache.
#include "cuda/kernels/device/launch.cuh"
#include "cuda/kernels/device/prefix_sum.cuh"
#include "cuda/kernels/experts/experts_tile.cuh"
#include "cuda/kernels/experts/placed_rows.h"
#include "cuda/kernels/tiles/prepared_rows.cuh"
#include "engine/base/check.h"

namespace skald::cuda {
namespace {

static_assert(kPlacedSumBytes == kRowSumBytes);

constexpr int kThreads = 256, kWarps = kThreads / 32;
constexpr int kCols = 16;  // neighbouring columns that a lane copies
constexpr int kSets = 4;   // such columns that it copies at a time

// An expert's places, cut into tiles of about one size. Tiles begin at multiples of kPlacedGroup,
// but for the first.
struct Cut {
  int begin, end, tiles, each;

  __device__ Cut(int begin, int end) : begin(begin), end(end) {
    const int span = end - start();
    tiles = end > begin ? (span + kMostTilePlaces - 1) / kMostTilePlaces : 0;
    each = tiles ? (span + tiles - 1) / tiles : 0;
    each = (each + kPlacedGroup - 1) / kPlacedGroup * kPlacedGroup;
  }
  __device__ int start() const { return begin / kPlacedGroup * kPlacedGroup; }
  __device__ PlacedTile tile(int expert, int i) const {
    const int first = max(begin, start() + i * each), last = min(end, start() + (i + 1) * each);
    return {expert, first, last - first, 0};
  }
};

// One block lists the tiles of all experts, in their order.
__device__ void list_tiles(const Routing& r) {
  if (r.rows == 1) {
    for (int i = threadIdx.x; i < r.used; i += kThreads) {
      r.tiles[i] = {__ldcg(r.chosen + i), i, 1, 0};
    }
    if (threadIdx.x == 0) *r.tile_count = r.used;
    return;
  }
  __shared__ int sums[kWarps];
  int before = 0;
  for (int base = 0; base < r.count; base += kThreads) {
    const int expert = base + static_cast<int>(threadIdx.x);
    const bool real = expert < r.count;
    const Cut cut(real ? __ldcg(r.begins + expert) : 0, real ? __ldcg(r.begins + expert + 1) : 0);
    int at = before;
    at += block_sum_below(cut.tiles, sums, before);
    for (int i = 0; i < cut.tiles; ++i) r.tiles[at + i] = cut.tile(expert, i);
  }
  if (threadIdx.x == 0) *r.tile_count = before;
}

// A lane's sixteen neighbouring columns of a row; zeros beyond the row.
struct LaneCols {
  uint4 units[2];
  __device__ void load(const char* row, int64_t col, int64_t cols) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      units[i] = col + i * 8 < cols
                     ? __ldcg(reinterpret_cast<const uint4*>(row + (col + i * 8) * 2))
                     : uint4{};
    }
  }
  __device__ void floats(float (&x)[kCols]) const {
    const Bf16* const numbers = reinterpret_cast<const Bf16*>(units);
#pragma unroll
    for (int i = 0; i < kCols; ++i) x[i] = to_float(numbers[i]);
  }
};

// A warp's part of a row, of which a lane has some sixteens. All loads are under way together.
struct RowPart {
  static constexpr int kWarpCols = kSets * 32 * kCols;
  LaneCols sets[kSets];

  __device__ void load(const char* row, int64_t base, int64_t cols) {
#pragma unroll
    for (int i = 0; i < kSets; ++i) sets[i].load(row, col_of(base, i), cols);
  }
  // Calls fn(col, columns). The whole warp takes part, also beyond `end`, since fn may exchange
  // numbers.
  template <class Fn>
  __device__ void each(int64_t base, int64_t end, const Fn& fn) const {
#pragma unroll
    for (int i = 0; i < kSets; ++i) {
      if (base + i * 32 * kCols < end) fn(col_of(base, i), sets[i]);
    }
  }

 private:
  __device__ static int64_t col_of(int64_t base, int set) {
    return base + (set * 32 + static_cast<int>(threadIdx.x) % 32) * kCols;
  }
};

// Stores a row as it is.
__device__ inline void place_plain(const PlaceRowsLaunch& a, const PlacedLayout& layout,
                                   const char* row, int place) {
  char* const to = static_cast<char*>(a.out);
  const int64_t end = layout.blocks * kPlacedCols;
  for (int64_t base = 0; base < end; base += RowPart::kWarpCols) {
    RowPart part;
    part.load(row, base, a.cols);
    part.each(base, end, [&](int64_t col, const LaneCols& x) {
      if (col >= end) return;
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        *reinterpret_cast<uint4*>(to + layout.offset(place, col / 8 + i)) = x.units[i];
      }
    });
  }
}

// Stores a row in f16, times a power of two, with the sums of 32 columns.
__device__ void place_halves(const PlaceRowsLaunch& a, const PlacedLayout& layout, const char* row,
                             int place) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  char* const to = static_cast<char*>(a.out);
  const int64_t end = layout.blocks * kPlacedCols;
  RowPart part;  // short rows stay in registers
  float most = 0;
  for (int64_t base = 0; base < end; base += RowPart::kWarpCols) {
    part.load(row, base, a.cols);
    part.each(base, end, [&](int64_t, const LaneCols& x) {
      float numbers[kCols];
      x.floats(numbers);
#pragma unroll
      for (const float number : numbers) most = fmaxf(most, fabsf(number));
    });
  }
  for (int offset = 16; offset > 0; offset /= 2) {
    most = fmaxf(most, __shfl_xor_sync(~0u, most, offset));
  }
  const RowScale scale(most);
  for (int64_t base = 0; base < end; base += RowPart::kWarpCols) {
    if (end > RowPart::kWarpCols) part.load(row, base, a.cols);
    part.each(base, end, [&](int64_t col, const LaneCols& x) {
      float numbers[kCols];
      x.floats(numbers);
      const Sixteen halves(numbers, scale.up, a.odd);
      const uint32_t(&pairs)[8] = halves.pairs;
      float sum = halves.sum(a.odd);
      sum += __shfl_xor_sync(~0u, sum, 1);  // of 32 columns
      if (col >= end) return;
      *reinterpret_cast<uint4*>(to + layout.offset(place, col / 8)) = {pairs[0], pairs[2], pairs[4],
                                                                       pairs[6]};
      *reinterpret_cast<uint4*>(to + layout.offset(place, col / 8 + 1)) = {pairs[1], pairs[3],
                                                                           pairs[5], pairs[7]};
      if (lane % 2) return;
      store_sum(to + layout.sums_of(place, col / kPlacedSumCols), sum, place,
                static_cast<int>(col % kPlacedSumCols / 32));
    });
  }
  // Sums of 32 columns beyond the row are zeros, too.
  const int64_t stored = layout.blocks * 2, all = layout.sum_blocks * 8;
  if (stored + lane < all) {
    store_sum(to + layout.sums_of(place, layout.sum_blocks - 1), 0, place,
              static_cast<int>((stored + lane) % 8));
  }
  if (lane == 0) reinterpret_cast<float*>(to + layout.scales)[place] = scale.down;
}

// A warp places a row.
template <bool kHalves>
__global__ void __launch_bounds__(kThreads, 4)
    place_rows(__grid_constant__ const PlaceRowsLaunch a) {
  let_next_kernel_start();
  wait_for_kernel_ahead();
  if (blockIdx.x == 0) return list_tiles(a.routing);
  const int choices = a.routing.choices();
  const int place =
      (static_cast<int>(blockIdx.x) - 1) * kWarps + static_cast<int>(threadIdx.x) / 32;
  if (place >= choices) return;
  const PlacedLayout layout(choices, a.cols);
  const int64_t row = input_row(a.routing, a.by_place, place);
  const char* const from = static_cast<const char*>(a.in) + row * a.cols * 2;
  kHalves ? place_halves(a, layout, from, place) : place_plain(a, layout, from, place);
}

}  // namespace

void launch_place_rows(const PlaceRowsLaunch& a, Stream stream) {
  check(a.cols % 32 == 0, "rows have whole sums of columns");
  const unsigned blocks = (a.routing.choices() + kWarps - 1) / kWarps + 1;
  const auto kernel = a.order == RowOrder::Placed ? place_rows<false> : place_rows<true>;
  launch_kernel(kernel, {dim3(blocks), kThreads, 0, a.dependent}, stream, a);
}

}  // namespace skald::cuda
