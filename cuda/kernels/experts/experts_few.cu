// experts_few: products of chosen experts with up to 8 places each. The floor is the memory's
// speed: the bytes of the chosen experts' matrices, each read once.
//
// A unit is a group of 16 weight rows of one expert, with up to 8 of the expert's places. A block
// has adjacent units, so that it meets few experts. Its warps form teams; a team has every n-th
// unit of the block, and its warps have slices of the columns. A warp streams the parts of all its
// units through registers, several parts ahead. The activations of two tiles of places at a time
// lie in shared memory, if there is room. A team adds up its slices in shared memory. The order of
// every sum is the same for any number of places.
#include "cuda/kernels/device/launch.cuh"
#include "cuda/kernels/experts/experts_tile.cuh"
#include "cuda/kernels/experts/experts_weights.cuh"

namespace skald::cuda {
namespace {

constexpr int kThreads = 512;

// What a block keeps in shared memory for a window: some adjacent tiles of places.
struct Window {
  int tiles;   // of the window
  int places;  // of a tile: the most that there is room for
};

// The layout of a tile in shared memory: the activations of its places, then sums of activations,
// [units of columns, kTotals, kFewPlaces].
template <class Part>
struct TileLayout {
  int row, totals;  // bytes

  // Padding: no bank is used twice by the lanes that read at once.
  __host__ __device__ explicit TileLayout(int parts)
      : row(parts * kPartCols * 2 + (Part::kInterleaved ? 32 : 64)),
        totals(parts * kPartUnits * Part::kTotals * kFewPlaces * 4) {}
  __host__ __device__ int bytes(int places) const { return places * row + totals; }
};

#if SKALD_HAS_MMA

constexpr int kWarps = kThreads / 32;
constexpr int kPartialRow = 20;  // floats: 16, and padding so that no bank is used twice

// A warp is worth at least three parts of a unit.
__device__ constexpr int team_of(int parts) {
  return parts >= 32 ? 8 : parts >= 12 ? 4 : parts >= 6 ? 2 : 1;
}

// Parts that a warp has asked for ahead of the one that it multiplies: as many as 64 registers
// hold.
template <class Part>
constexpr int kAhead = std::clamp(256 / static_cast<int>(sizeof(Part)), 2, 6);

struct Lists {
  ExpertTile tiles[kMostFewTiles];
  int rows_of[kMostFewChoices];  // the input row of each place
  int count;                     // number of tiles
};

// Lists the tiles of all experts. The first warp calls this.
__device__ inline void list_tiles(const Routing& r, int places, Lists& lists) {
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
    const int tiles = (end - first + places - 1) / places;
    const int sum = warp_prefix_sum(tiles);
    for (int i = 0; i < tiles; ++i) {
      const int at = first + i * places;
      lists.tiles[before + sum - tiles + i] = {base + lane, at, min(places, end - at)};
    }
    before += __shfl_sync(~0u, sum, 31);
  }
  if (lane == 0) lists.count = before;
}

// The warps of a team wait for each other. Barrier 0 is the block's.
__device__ inline void team_barrier(int team, int warps) {
  if (warps == 1) return __syncwarp();
  asm volatile("bar.sync %0, %1;" ::"r"(team + 1), "r"(warps * 32) : "memory");
}

// Fills shared memory for the window that begins with tile `first`. The block's last unit is before
// `end`. Not inline: calls are rare, and the loop around them is unrolled.
template <class Part>
__device__ __noinline__ void fill_window(const ExpertsLaunch& a, const Lists& lists, Window window,
                                         int first, int end, char* activations) {
  using T = typename Part::Number;
  const int parts = parts_of(a.ins), groups = row_blocks(a, tiles::kRows), places = window.places;
  const TileLayout<Part> layout(parts);
  const int eights = parts * kPartCols / 8;  // of a place
  for (int base = 0; base < window.tiles * places * eights; base += kThreads) {
    const int i = base + static_cast<int>(threadIdx.x);
    const int row = i / eights, eight = i % eights;
    const int place = row % places, own = row / places, tile = first + own;
    const bool real = own < window.tiles && tile < lists.count && tile * groups < end &&
                      place < lists.tiles[tile].rows;
    uint4 numbers = {0, 0, 0, 0};
    if (real && eight * 8 < a.ins) {
      const int64_t from = int64_t{lists.rows_of[lists.tiles[tile].first + place]} * a.ins;
      numbers = __ldcg(reinterpret_cast<const uint4*>(static_cast<const T*>(a.in) + from) + eight);
    }
    const float total = total_of<Part>(numbers);
    if (!real) continue;
    char* const at = activations + own * layout.bytes(places);
    *reinterpret_cast<uint4*>(at + place * layout.row + eight * 16) = numbers;
    if (Part::kTotals > 0 && eight % kTotalLanes<Part> == 0) {
      float* const totals = reinterpret_cast<float*>(at + places * layout.row);
      totals[eight / kTotalLanes<Part> * kFewPlaces + place] = total;
    }
  }
  __syncthreads();
}

// Adds up the slices of a unit and stores the results. A team calls it; `partials` are those of its
// warps.
template <class T>
__device__ inline void store_unit(const ExpertsLaunch& a, const ExpertTile& tile, int group,
                                  const float (*partials)[kFewPlaces][kPartialRow], int warps) {
  const bool pairs = a.epilogue == Epilogue::Gated;
  const int lanes = warps * 32, results = pairs ? tiles::kRows / 2 : tiles::kRows;
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x) % lanes; i < tile.rows * results; i += lanes) {
    const int row = pairs ? i % 8 * 2 : i % 16, place = pairs ? i / 8 : i / 16;
    const int64_t out = int64_t{group} * tiles::kRows + row;
    if (out >= a.outs) continue;
    float sum = 0, up = 0;
#pragma unroll 1
    for (int warp = 0; warp < warps; ++warp) {
      const float* at = &partials[warp][place][row];
      sum += at[0];
      if (pairs) up += at[1];
    }
    store_result<T>(a, {tile.expert, tile.first + place, out}, sum, up);
  }
}

// A warp's position in the stream of its parts: the tile and group of a unit, and a part of the
// unit.
struct Cursor {
  int tile, group, part;

  // The next part of the warp; every `warps`-th part of a unit and every `teams`-th unit are its
  // own.
  __device__ void advance(int warps, int parts, int slice, int teams, int groups) {
    part += warps;
    if (part < parts) return;
    part = slice;
    group += teams;
    while (group >= groups) group -= groups, ++tile;
  }
};

#endif

template <class Part>
__global__ void __launch_bounds__(kThreads, 1)
    experts_few(__grid_constant__ const ExpertsLaunch a, Window window) {
#if SKALD_HAS_MMA
  using T = typename Part::Number;
  extern __shared__ __align__(16) char activations[];  // window.tiles times TileLayout
  __shared__ Lists lists;
  __shared__ float partials[2][kWarps][kFewPlaces][kPartialRow];
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int g = lane / 4, c = lane % 4;
  const int parts = parts_of(a.ins), warps = team_of(parts), teams = kWarps / warps;
  const int team = warp / warps, slice = warp % warps;
  const int each = (parts - slice + warps - 1) / warps;  // parts of a unit that the warp has
  const int groups = row_blocks(a, tiles::kRows), places = window.places;
  const TileLayout<Part> layout(parts);
  if (!a.chosen_early) wait_for_kernel_ahead();
  if (warp == 0) {
    list_tiles(a.routing, places, lists);
  } else {
    for (int i = threadIdx.x - 32; i < a.routing.rows * a.routing.used; i += kThreads - 32) {
      lists.rows_of[i] = static_cast<int>(input_row(a, i));
    }
  }
  __syncthreads();
  const int units = lists.count * groups, blocks = static_cast<int>(gridDim.x);
  const int least = units / blocks, more = units % blocks, block = static_cast<int>(blockIdx.x);
  const int begin = block * least + min(block, more), end = begin + least + (block < more);

  Part ring[kAhead<Part>];
  typename Part::Rows rows;
  Cursor at = {(begin + team) / groups, (begin + team) % groups, slice}, ahead = at;
  const auto load = [&](Part& part) {
    if (ahead.part == slice) {
      rows.set(a, lists.tiles[ahead.tile].expert, int64_t{ahead.group} * tiles::kRows);
    }
    part.load(rows, ahead.part);
    ahead.advance(warps, parts, slice, teams, groups);
  };
  const int mine = end - begin > team ? (end - begin - team + teams - 1) / teams : 0;
  const int steps = mine * each;
#pragma unroll
  for (int i = 0; i < kAhead<Part>; ++i) {
    if (i < steps) load(ring[i]);
  }
  if (a.chosen_early) wait_for_kernel_ahead();
  // Not earlier: the next kernel may read the choice of experts ahead of its wait.
  let_next_kernel_start();

  int first_tile = begin / groups;
  const auto fill = [&] { fill_window<Part>(a, lists, window, first_tile, end, activations); };
  const auto next_window = [&] {
    __syncthreads();
    first_tile += window.tiles;
    fill();
  };
  fill();

  int set = 0;
  const char* x_row = nullptr;
  const float* x_totals = nullptr;
  float sums[4] = {};
  for (int base = 0; base < steps; base += kAhead<Part>) {
#pragma unroll
    for (int i = 0; i < kAhead<Part>; ++i) {
      if (base + i >= steps) break;
      if (at.part == slice) {
        while (at.tile >= first_tile + window.tiles) next_window();
        const char* tile = activations + (at.tile - first_tile) * layout.bytes(places);
        // A lane without a place of its own reads the last place. Its results are not stored.
        x_row = tile + min(g, lists.tiles[at.tile].rows - 1) * layout.row;
        x_totals = reinterpret_cast<const float*>(tile + places * layout.row) + 2 * c;
      }
      uint4 x[kPartUnits];
#pragma unroll
      for (int u = 0; u < kPartUnits; ++u) {
        x[u] = shared_unit<Part>(x_row, at.part * kPartUnits + u);
      }
      const float* sum = x_totals + at.part * kPartUnits * Part::kTotals * kFewPlaces;
      ring[i].multiply(sums, x, [&](int u, int m) {
        return *reinterpret_cast<const float2*>(sum + (u * Part::kTotals + m) * kFewPlaces);
      });
      if (base + i + kAhead<Part> < steps) load(ring[i]);
      const Cursor done = at;
      at.advance(warps, parts, slice, teams, groups);
      if (at.part != slice) continue;

        // The unit is complete. Two sets are enough: a warp that writes to this set again has
        // passed the next unit's barrier, and the team has read this set before that one.
#pragma unroll
      for (int s = 0; s < 4; ++s) {
        partials[set][warp][2 * c + s % 2][g + s / 2 * 8] = sums[s];
        sums[s] = 0;
      }
      team_barrier(team, warps);
      store_unit<T>(a, lists.tiles[done.tile], done.group, partials[set] + team * warps, warps);
      set ^= 1;
    }
  }
  while (first_tile + window.tiles <= (end - 1) / groups) next_window();  // others may go on
#endif
}

// The shared memory that a block of the current device may have.
int64_t most_shared_bytes() {
  int device = 0, bytes = 0;
  SKALD_CUDA(cudaGetDevice(&device));
  SKALD_CUDA(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  return bytes;
}

template <class Part>
void launch(const ExpertsLaunch& a, Stream stream) {
  constexpr int64_t kListBytes = 40 << 10;  // of shared memory, beside the window
  const TileLayout<Part> layout(parts_of(a.ins));
  const int64_t most = most_shared_bytes() - kListBytes;
  Window window = {2, std::min(kFewPlaces, a.routing.rows)};
  const auto bytes = [&] { return int64_t{window.tiles} * layout.bytes(window.places); };
  while (bytes() > most && (window.tiles > 1 || window.places > 1)) {
    (window.tiles > 1 ? window.tiles : window.places) /= 2;
  }
  check(bytes() <= most, "a place's activations fit in shared memory");
  SKALD_CUDA(cudaFuncSetAttribute(experts_few<Part>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  static_cast<int>(bytes())));
  launch_kernel(experts_few<Part>,
                {dim3(a.multiprocessors), kThreads, static_cast<size_t>(bytes()), a.dependent},
                stream, a, window);
}

}  // namespace

void launch_experts_few(const ExpertsLaunch& a, Stream stream) {
  dispatch_parts(a, [&](auto* part) { launch<std::remove_pointer_t<decltype(part)>>(a, stream); });
}

template <>
void launch_experts<kernel_id("experts_few")>(const ExpertsLaunch& launch, Stream stream) {
  launch_experts_few(launch, stream);
}

}  // namespace skald::cuda
