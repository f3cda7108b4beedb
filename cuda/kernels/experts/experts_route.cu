// The router: norms rows, multiplies them by the router's matrix in float32, and chooses experts.
// With one row the time is that of the matrix's bytes, 1 MB for 128 experts of a 2048-wide model,
// and of the chain of norm, product and choice. With many rows it is that of the products. A block
// has some rows and some experts. Of the blocks with the same rows, the last one to end chooses the
// rows' experts.
//
// Sums have one order for any number of rows, but for route_tile(). A norm's squares are added as
// by 256 threads: each adds every 256th access, then each 32 threads add theirs, then these sums
// are added. A product is added by 32 lanes.
#include <type_traits>

#include "cuda/kernels/device/choice.cuh"
#include "cuda/kernels/device/launch.cuh"
#include "cuda/kernels/device/math.cuh"
#include "cuda/kernels/device/number.cuh"
#include "cuda/kernels/experts/experts.h"
#include "cuda/kernels/experts/float_access.cuh"

namespace skald::cuda {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / 32;
// Columns of the rows that are in shared memory at a time.
template <int kRows>
constexpr int kChunkOf = kRows > 8   ? 512
                         : kRows > 1 ? 1024
                                     : 2048;

template <int kVec>
__device__ void add_products(float& sum, const Pack<float, kVec>& a, const Pack<float, kVec>& b) {
#pragma unroll
  for (int i = 0; i < kVec; ++i) sum = fmaf(a.x[i], b.x[i], sum);
}

// Chooses a row's experts. A warp calls it.
template <int kEach>
__device__ void choose(const RouteLaunch& a, int row) {
  const Routing& r = a.routing;
  const float* logits = a.logits + int64_t{row} * r.count;
  Choice<kEach> choice(r.count);
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const int expert = choice.expert(i);
    choice.logits[i] = expert < r.count ? __ldcg(logits + expert) : 0;
  }
  if (a.spec.used_groups < a.spec.groups) {
    choice.choose_in_groups(a.spec, a.choice_bias);
  } else {
    choice.choose(r.used, a.choice_bias);
  }
  const int64_t at = int64_t{row} * r.used;
  choice.store(a.spec, r.chosen + at, r.weights + at);
}

// The factor of a row's norm. A warp calls it.
template <int kVec>
__device__ float row_scale(const RouteLaunch& a, const float* row) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t accesses = a.dim / kVec;
  float parts[kWarps] = {};
  for (int64_t i = lane; i < accesses; i += kThreads) {
#pragma unroll
    for (int part = 0; part < kWarps; ++part) {
      if (i + part * 32 >= accesses) continue;
      const Pack<float, kVec> some = load<kVec>(row, i + part * 32);
      add_products(parts[part], some, some);
    }
  }
  float total = 0;
#pragma unroll
  for (float part : parts) total += warp_sum(part);
  return rsqrtf(total / static_cast<float>(a.dim) + a.norm_eps);
}

__device__ inline float logit_with_bias(const RouteLaunch& a, float logit, int expert) {
  return gated_logit(logit + (a.bias ? a.bias[expert] : 0), a.spec.gating);
}

// The last block to end, among those with the same rows, chooses the rows' experts. All threads of
// a block call it.
__device__ inline void choose_last(const RouteLaunch& a, int first_row, int rows) {
  __shared__ bool last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    unsigned* ticket = a.tickets + blockIdx.x;
    last = atomicAdd(ticket, 1u) == gridDim.y - 1;
    if (last) *ticket = 0;
  }
  __syncthreads();
  if (!last) return;
  __threadfence();
  const int warp = static_cast<int>(threadIdx.x) / 32, warps = static_cast<int>(blockDim.x) / 32;
  for (int row = warp; row < rows; row += warps) {
    a.routing.count <= 128   ? choose<4>(a, first_row + row)
    : a.routing.count <= 256 ? choose<8>(a, first_row + row)
                             : choose<kMostExperts / 32>(a, first_row + row);
  }
}

// kRows: rows of a block. kEach: experts of a warp. kVec: numbers of an access; divides dim. kOwn:
// the launch has route_weight, which takes registers that other routers need. The router's weights
// are loaded a turn or two ahead, the first ones before the wait for the kernel ahead.
template <int kRows, int kEach, int kVec, bool kOwn>
__global__ void __launch_bounds__(kThreads, 2) route(__grid_constant__ const RouteLaunch a) {
  using Some = Pack<float, kVec>;
  constexpr int kChunk = kChunkOf<kRows>;
  __shared__ __align__(16) float normed[kRows][kChunk];
  __shared__ float scratch[kWarps], scales[kRows];
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int first_row = static_cast<int>(blockIdx.x) * kRows;
  const int rows = min(kRows, a.routing.rows - first_row);
  const int first_expert = (static_cast<int>(blockIdx.y) * kWarps + warp) * kEach;
  const int64_t accesses = a.dim / kVec;
  const float* x = a.x + first_row * a.dim;
  let_next_kernel_start();
  constexpr int kTurn = kRows == 1 ? 8 : kEach == 1 ? 4 : 1;  // accesses of a lane in a turn
  Some now[kTurn][kEach], next[kTurn][kEach];
  const auto fetch = [&](Some(&to)[kTurn][kEach], int64_t turn) {
#pragma unroll
    for (int k = 0; k < kTurn; ++k) {
      const int64_t at = (turn * kTurn + k) * 32 + lane;
#pragma unroll
      for (int e = 0; e < kEach; ++e) {
        const int expert = min(first_expert + e, a.routing.count - 1);
        if (at < accesses) to[k][e] = load<kVec>(a.router + expert * a.dim, at);
      }
    }
  };
  fetch(now, 0);
  fetch(next, 1);
  // One row: a thread keeps its numbers of the first chunk, and their weights, in registers.
  constexpr int kKept = kRows == 1 ? kChunk / kVec / kThreads : 1;
  Some kept[kKept], kept_weights[kKept];
  const auto keep = [&](Some(&to)[kKept], const float* from) {
#pragma unroll
    for (int k = 0; k < kKept; ++k) {
      const int64_t at = k * kThreads + threadIdx.x;
      to[k] = at < accesses ? load<kVec>(from, at) : Some{};
    }
  };
  if constexpr (kRows == 1) keep(kept_weights, a.norm_weight);
  wait_for_kernel_ahead();

  float own_scale = 0;  // of a single row; every thread has it
  if constexpr (kRows == 1) {
    keep(kept, x);
    float sum = 0;
#pragma unroll
    for (const Some& some : kept) add_products(sum, some, some);
    for (int64_t i = kKept * kThreads + threadIdx.x; i < accesses; i += kThreads) {
      const Some some = load<kVec>(x, i);
      add_products(sum, some, some);
    }
    sum = warp_sum(sum);
    if (lane == 0) scratch[warp] = sum;
    __syncthreads();
    float total = 0;
    for (float part : scratch) total += part;
    own_scale = rsqrtf(total / static_cast<float>(a.dim) + a.norm_eps);
  } else {
    for (int row = warp; row < rows; row += kWarps) {
      const float scale = row_scale<kVec>(a, x + row * a.dim);
      if (lane == 0) scales[row] = scale;
    }
    __syncthreads();
  }

  float sums[kEach][kRows] = {};
  for (int64_t col = 0; col < a.dim; col += kChunk) {
    const int count = static_cast<int>(min(int64_t{kChunk}, a.dim - col)) / kVec;
    // Norms the numbers at access `at` of a row's chunk.
    const auto put = [&](int row, int at, const Some& some, const Some& weight, float scale) {
      Some result;
#pragma unroll
      for (int j = 0; j < kVec; ++j) result.x[j] = some.x[j] * scale * weight.x[j];
      if (blockIdx.y == 0) {
        store_numbers(a.type, a.out, (first_row + row) * a.dim + col + at * kVec, result);
      }
      if constexpr (kOwn) {
        const Some by = load<kVec>(a.route_weight + col, at);
#pragma unroll
        for (int j = 0; j < kVec; ++j) result.x[j] = some.x[j] * scale * by.x[j];
      }
      reinterpret_cast<Some*>(normed[row])[at] = result;
    };
    if constexpr (kRows == 1) {
      const float scale = own_scale;
#pragma unroll
      for (int k = 0; k < kKept; ++k) {
        const int at = k * kThreads + static_cast<int>(threadIdx.x);
        if (at >= count) break;
        const bool first = col == 0;
        put(0, at, first ? kept[k] : load<kVec>(x + col, at),
            first ? kept_weights[k] : load<kVec>(a.norm_weight + col, at), scale);
      }
    } else {
      for (int at = threadIdx.x; at < count; at += kThreads) {
        const Some weight = load<kVec>(a.norm_weight + col, at);
        constexpr int kAtOnce = kRows < 4 ? kRows : 4;  // loads under way together
#pragma unroll 1
        for (int first = 0; first < rows; first += kAtOnce) {
          Some some[kAtOnce];
#pragma unroll
          for (int i = 0; i < kAtOnce; ++i) {
            some[i] = load<kVec>(x + min(first + i, rows - 1) * a.dim + col, at);
          }
#pragma unroll
          for (int i = 0; i < kAtOnce; ++i) {
            if (first + i >= rows) break;
            put(first + i, at, some[i], weight, scales[first + i]);
          }
        }
      }
    }
    __syncthreads();
    constexpr int kTurns = kChunk / kVec / 32 / kTurn;  // turns of a chunk
#pragma unroll 1
    for (int turn = 0; turn < kTurns; ++turn) {
#pragma unroll
      for (int k = 0; k < kTurn; ++k) {
        const int i = (turn * kTurn + k) * 32 + lane;
        if (i >= count) break;
#pragma unroll
        for (int row = 0; row < kRows; ++row) {
          if (row >= rows) break;
          const Some some = reinterpret_cast<const Some*>(normed[row])[i];
#pragma unroll
          for (int e = 0; e < kEach; ++e) add_products(sums[e][row], now[k][e], some);
        }
      }
#pragma unroll
      for (int k = 0; k < kTurn; ++k) {
#pragma unroll
        for (int e = 0; e < kEach; ++e) now[k][e] = next[k][e];
      }
      fetch(next, col / kChunk * kTurns + turn + 2);
    }
    __syncthreads();
  }
#pragma unroll
  for (int e = 0; e < kEach; ++e) {
#pragma unroll
    for (int row = 0; row < kRows; ++row) {
      const float logit = warp_sum(sums[e][row]);
      const int expert = first_expert + e;
      if (lane == 0 && row < rows && expert < a.routing.count) {
        a.logits[int64_t{first_row + row} * a.routing.count + expert] =
            logit_with_bias(a, logit, expert);
      }
    }
  }
  choose_last(a, first_row, rows);
}

// Many rows: a block has 64 rows and 128 experts, a thread 8 of each. Both pass through shared
// memory 16 columns at a time; the next ones are loaded while these are multiplied. A sum is added
// by one thread, in the order of the columns: not in the order of route().
constexpr int kTileThreads = 128, kTileRows = 64, kTileExperts = 128, kTileCols = 16;
constexpr int kFours = kTileCols / 4;  // accesses of a row

__global__ void __launch_bounds__(kTileThreads) route_tile(__grid_constant__ const RouteLaunch a) {
  // [cols][rows], padded so that stores of neighbouring lanes use other banks.
  __shared__ __align__(16) float rows_s[2][kTileCols][kTileRows + 4];
  __shared__ __align__(16) float experts_s[2][kTileCols][kTileExperts + 4];
  __shared__ float scales[kTileRows];
  using Some = Pack<float, 4>;
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32, lane = thread % 32;
  const int first_row = static_cast<int>(blockIdx.x) * kTileRows;
  const int rows = min(kTileRows, a.routing.rows - first_row);
  const int first_expert = static_cast<int>(blockIdx.y) * kTileExperts;
  const float* x = a.x + first_row * a.dim;
  let_next_kernel_start();
  wait_for_kernel_ahead();
#pragma unroll 2
  for (int row = warp; row < rows; row += kTileThreads / 32) {
    const float scale = row_scale<4>(a, x + row * a.dim);
    if (lane == 0) scales[row] = scale;
  }
  __syncthreads();

  constexpr int kOwnRows = kTileRows * kFours / kTileThreads;  // loads of a thread
  constexpr int kOwnExperts = kTileExperts * kFours / kTileThreads;
  const int four = thread % kFours, line = thread / kFours;  // of the thread's first load
  constexpr int kLines = kTileThreads / kFours;
  Some some_rows[kOwnRows], some_experts[kOwnExperts], weight;
  const auto fetch = [&](int64_t col) {
    const int64_t at = col / 4 + four;
    weight = load<4>(a.norm_weight, at);
#pragma unroll
    for (int i = 0; i < kOwnRows; ++i) {
      some_rows[i] = load<4>(x + min(line + i * kLines, rows - 1) * a.dim, at);
    }
#pragma unroll
    for (int i = 0; i < kOwnExperts; ++i) {
      const int expert = min(first_expert + line + i * kLines, a.routing.count - 1);
      some_experts[i] = load<4>(a.router + expert * a.dim, at);
    }
  };
  const auto put = [&](int set, int64_t col) {
    const Some by = a.route_weight ? load<4>(a.route_weight, col / 4 + four) : weight;
#pragma unroll
    for (int i = 0; i < kOwnRows; ++i) {
      const int row = line + i * kLines;
      const float scale = scales[min(row, rows - 1)];
      Some normed;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        normed.x[j] = some_rows[i].x[j] * scale * weight.x[j];
        rows_s[set][4 * four + j][row] = some_rows[i].x[j] * scale * by.x[j];
      }
      if (blockIdx.y == 0 && row < rows) {
        store_numbers(a.type, a.out, (first_row + row) * a.dim + col + 4 * four, normed);
      }
    }
#pragma unroll
    for (int i = 0; i < kOwnExperts; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        experts_s[set][4 * four + j][line + i * kLines] = some_experts[i].x[j];
      }
    }
  };
  // A thread's rows are 8 adjacent ones; its experts 4 adjacent ones, and 4 that are 64 further.
  const int own_row = thread / 16 * 8, own_expert = thread % 16 * 4;
  float sums[8][8] = {};
  fetch(0);
  put(0, 0);
  __syncthreads();
  int set = 0;
  for (int64_t col = 0; col < a.dim; col += kTileCols, set ^= 1) {
    const bool more = col + kTileCols < a.dim;
    if (more) fetch(col + kTileCols);
#pragma unroll
    for (int k = 0; k < kTileCols; ++k) {
      float r[8], e[8];
      *reinterpret_cast<float4*>(r) = *reinterpret_cast<float4*>(&rows_s[set][k][own_row]);
      *reinterpret_cast<float4*>(r + 4) = *reinterpret_cast<float4*>(&rows_s[set][k][own_row + 4]);
      *reinterpret_cast<float4*>(e) = *reinterpret_cast<float4*>(&experts_s[set][k][own_expert]);
      *reinterpret_cast<float4*>(e + 4) =
          *reinterpret_cast<float4*>(&experts_s[set][k][own_expert + 64]);
#pragma unroll
      for (int i = 0; i < 8; ++i) {
#pragma unroll
        for (int j = 0; j < 8; ++j) sums[i][j] = fmaf(r[i], e[j], sums[i][j]);
      }
    }
    if (more) put(set ^ 1, col + kTileCols);
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) {
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const int row = own_row + i, expert = first_expert + own_expert + j % 4 + j / 4 * 64;
      if (row >= rows || expert >= a.routing.count) continue;
      a.logits[int64_t{first_row + row} * a.routing.count + expert] =
          logit_with_bias(a, sums[i][j], expert);
    }
  }
  choose_last(a, first_row, rows);
}

unsigned parts(int64_t count, int64_t each) {
  return static_cast<unsigned>((count + each - 1) / each);
}

}  // namespace

void launch_route(const RouteLaunch& a, Stream stream) {
  check(a.routing.count <= kMostExperts, "a lane of the router has room for its experts");
  constexpr int kSomeRows = 128;  // up to this many rows, more blocks share the experts
  constexpr int kManyRows = 2 * kRouteRows;
  constexpr int kFew = 1, kMany = 4;  // the number of experts that a warp computes
  const auto launch = [&](auto* kernel, int rows, int each) {
    const dim3 blocks(parts(a.routing.rows, rows), parts(a.routing.count, kWarps * each));
    launch_kernel(kernel, {blocks, kThreads, 0, a.dependent}, stream, a);
  };
  const auto launch_any = [&](auto own) {
    constexpr bool kOwn = decltype(own)::value;
    if (a.dim % 4 != 0) {  // no known model
      launch(route<kRouteRows, kFew, 1, kOwn>, kRouteRows, kFew);
    } else if (a.routing.rows <= kRouteFewRows) {
      launch(route<1, kFew, 4, kOwn>, 1, kFew);
    } else if (a.routing.rows <= kSomeRows) {
      launch(route<kRouteRows, kFew, 4, kOwn>, kRouteRows, kFew);
    } else {
      launch(route<kManyRows, kMany, 4, kOwn>, kManyRows, kMany);
    }
  };
  // Fewer blocks of 64 rows would leave most multiprocessors idle.
  constexpr unsigned kFewestTiles = 48;
  const dim3 tiles(parts(a.routing.rows, kTileRows), parts(a.routing.count, kTileExperts));
  if (!a.one_order && a.dim % kTileCols == 0 && tiles.x * tiles.y >= kFewestTiles &&
      a.routing.rows > kTileRows) {
    launch_kernel(route_tile, {tiles, kTileThreads, 0, a.dependent}, stream, a);
  } else if (a.route_weight) {
    launch_any(std::true_type());
  } else {
    launch_any(std::false_type());
  }
}

}  // namespace skald::cuda
