// Attention with heads that are too wide for the other kernels on tensor cores: heads of more than
// 256 dimensions, and latents, whose keys serve as values. After launch_rope_append(), for decode
// and for prompts.
//
// Floor: in decode the keys and values read once; for prompts 4 * head_dim operations for each
// query head, row and visible key.
//
// Split: a block has one KV head and up to 16 or 32 queries: query i is head i % group of row
// i / group of a tile of rows. Tiles of 32 tokens come to shared memory by cp.async, several ahead.
// In decode a tile is one row, and its tokens are divided into runs, each with a block of its own.
// Up to 8 runs are a cluster, whose blocks merge their results; more are merged by merge_wide, in
// their order. How many runs a row has depends on the number of rows and on the class of its depth.
//
// For each tile of tokens: (1) scores; a warp has 16 queries, 16 tokens and a part of the
// dimensions. (2) Weights; 8 or 16 threads of a query add up the parts. (3) Sums of values; a warp
// has every eighth group of 16 columns. Tiles begin at multiples of 32, so that a row of a prompt
// has the same bits whatever rows share its tile.
#include "cuda/kernels/attention/attention.h"
#include "cuda/kernels/attention/wide_block.cuh"
#include "cuda/kernels/device/all_shared.cuh"
#include "cuda/kernels/device/launch.cuh"
#include "cuda/kernels/device/math.cuh"
#include "engine/base/check.h"

namespace skald::cuda {
namespace {

// What a launch fixes.
struct WideGrid {
  int runs;          // of each row, in decode; 1: the block stores the result
  int query_blocks;  // of a tile and KV head
};

template <class T, int kTiles, bool kServes, int kStages>
__global__ void __launch_bounds__(kWideThreads, 1) attend_wide(AttentionLaunch a, WideGrid grid) {
#if SKALD_HAS_MMA
  extern __shared__ __align__(16) char memory[];
  __shared__ float factors[WideSizes<kTiles>::kQueries];
  __shared__ float2 totals[WideSizes<kTiles>::kQueries];
  let_next_kernel_start();
  const bool decode = a.decode.depth > 0;
  const AttentionTile tile =
      decode ? AttentionTile{static_cast<int32_t>(blockIdx.z), 1} : a.prefill.tiles[blockIdx.x];
  const int run_index = decode ? static_cast<int>(blockIdx.x) : 0;
  const int kv_head = blockIdx.y / grid.query_blocks;
  const int first = blockIdx.y % grid.query_blocks * WideSizes<kTiles>::kQueries;
  if (first >= tile.rows * (a.spec.heads / a.spec.kv_heads)) return;
  WideBlock<T, kTiles, kServes, kStages> block(a, {tile, kv_head, first}, memory, factors);
  const WideRun run = WideRun::of(block.start(), block.last(), grid.runs, run_index);
  block.attend(run);
  const bool cluster = cluster_blocks() > 1;
  const int used = WideRun::used(block.start(), block.last(), grid.runs);
  if (grid.runs == 1 || (cluster && used == 1)) {
    if (run.begin < run.end) block.store();
  } else if (cluster) {
    block.merge_cluster(used, totals);
  } else if (run.begin < run.end) {
    block.store_part(grid.runs, run_index);
  }
#endif
}

constexpr int kMergeWarps = 8, kMergeThreads = kMergeWarps * 32;
constexpr int kMergeColumns = 32 * 4;  // a lane has four

// The largest or the sum of the block's numbers, for all threads. `shared`: a float for each warp.
template <class Fn>
__device__ float merged(float x, float* shared, const Fn& fn) {
  for (int lanes = 16; lanes > 0; lanes /= 2) x = fn(x, __shfl_xor_sync(~0u, x, lanes));
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = x;
  __syncthreads();
  x = shared[0];
  for (int warp = 1; warp < kMergeWarps; ++warp) x = fn(x, shared[warp]);
  return x;
}

// A block adds up the runs of 128 columns of one row and head; each warp has every kMergeWarps-th
// run.
template <class T>
__global__ void __launch_bounds__(kMergeThreads) merge_wide(AttentionLaunch a, int runs) {
#if SKALD_HAS_MMA
  __shared__ float factors[kMostWideRuns], largest[kMergeWarps], totals_s[kMergeWarps];
  __shared__ float4 parts[kMergeWarps][32];
  static_assert(kMostWideRuns <= kMergeThreads);
  let_next_kernel_start();
  wait_for_kernel_ahead();
  const int row = blockIdx.x / a.spec.heads, head = blockIdx.x % a.spec.heads;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int64_t row_head = blockIdx.x;
  const int position = a.step.positions[row];
  const int used = WideRun::used(window_start(a.spec, position), position, runs);
  const bool own = static_cast<int>(threadIdx.x) < used;
  const float2 run_total =
      own ? __ldcg(wide_totals(a, runs, row_head) + threadIdx.x) : make_float2(-INFINITY, 0);
  const float maximum = merged(run_total.x, largest, [](float x, float y) { return fmaxf(x, y); });
  const float factor = exp2_fast(run_total.x - maximum);
  if (own) factors[threadIdx.x] = factor;
  const float total =
      merged(run_total.y * factor, totals_s, [](float x, float y) { return x + y; }) +
      sink_weight(a, head, maximum);
  const int column = static_cast<int>(blockIdx.y) * kMergeColumns + lane * 4;
  const bool inside = column < a.spec.head_dim;
  float4 sum = {0, 0, 0, 0};
#pragma unroll 4
  for (int run = warp; run < used; run += kMergeWarps) {
    if (!inside) break;
    const float4 x =
        __ldcg(reinterpret_cast<const float4*>(wide_sums(a, runs, row_head, run) + column));
    const float f = factors[run];
    sum.x = fmaf(f, x.x, sum.x), sum.y = fmaf(f, x.y, sum.y);
    sum.z = fmaf(f, x.z, sum.z), sum.w = fmaf(f, x.w, sum.w);
  }
  parts[warp][lane] = sum;
  __syncthreads();
  if (warp != 0 || !inside) return;
#pragma unroll
  for (int other = 1; other < kMergeWarps; ++other) {
    const float4 x = parts[other][lane];
    sum.x += x.x, sum.y += x.y, sum.z += x.z, sum.w += x.w;
  }
  Pack<T, 4> rounded = {{from_float<T>(sum.x / total), from_float<T>(sum.y / total),
                         from_float<T>(sum.z / total), from_float<T>(sum.w / total)}};
  *reinterpret_cast<Pack<T, 4>*>(static_cast<T*>(a.out) + row_head * a.spec.head_dim + column) =
      rounded;
#endif
}

int shared_limit() {
  int device = 0, bytes = 0;
  SKALD_CUDA(cudaGetDevice(&device));
  SKALD_CUDA(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  return bytes;
}

// False where multiprocessors that are near one another are too few, as under MPS.
template <class Kernel>
bool has_room_for_cluster(Kernel kernel, size_t bytes, int cluster) {
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(cluster));
  config.blockDim = dim3(kWideThreads);
  config.dynamicSmemBytes = bytes;
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {static_cast<unsigned>(cluster), 1, 1};
  config.attrs = &attribute;
  config.numAttrs = 1;
  int clusters = 0;
  SKALD_CUDA(cudaOccupancyMaxActiveClusters(&clusters, kernel, &config));
  return clusters > 0;
}

template <class T, int kTiles, bool kServes, int kStages>
void launch_wide(const AttentionLaunch& a, Stream stream) {
  const AttentionSpec& s = a.spec;
  constexpr int kQueries = WideSizes<kTiles>::kQueries;
  const bool decode = a.decode.depth > 0;
  const int rows = decode ? 1 : kWideRows;
  const int blocks = (rows * (s.heads / s.kv_heads) + kQueries - 1) / kQueries;
  const bool clusters = a.code == AttentionCode::Wgmma;
  WideSplit split =
      decode ? wide_split(a.rows, s, a.decode.depth, a.multiprocessors, clusters) : WideSplit{1, 1};
  const auto bytes = static_cast<size_t>(WideSizes<kTiles>::bytes(s.head_dim, kServes, kStages));
  const auto kernel = attend_wide<T, kTiles, kServes, kStages>;
  SKALD_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  static_cast<int>(bytes)));
  ask_for_all_shared(kernel);
  if (split.cluster > 1 && !has_room_for_cluster(kernel, bytes, split.cluster)) split.cluster = 1;
  const auto first = static_cast<unsigned>(decode ? split.runs : a.prefill.count);
  const dim3 size(first, static_cast<unsigned>(s.kv_heads * blocks),
                  static_cast<unsigned>(decode ? a.rows : 1));
  launch_kernel(kernel, {size, kWideThreads, bytes, a.dependent, split.cluster}, stream, a,
                WideGrid{split.runs, blocks});
  if (split.runs == split.cluster) return;
  const dim3 merges(static_cast<unsigned>(a.rows * s.heads),
                    static_cast<unsigned>((s.head_dim + kMergeColumns - 1) / kMergeColumns));
  ask_for_all_shared(merge_wide<T>);
  launch_kernel(merge_wide<T>, {merges, kMergeThreads, 0, a.dependent}, stream, a, split.runs);
}

// More queries and stages where the GPU's shared memory has room for them.
template <class T, bool kServes>
void launch_stages(const AttentionLaunch& a, Stream stream) {
  const AttentionSpec& s = a.spec;
  const int limit = shared_limit() - 512;  // beside static variables
  const bool prompt = a.decode.depth == 0;
  const bool many = (prompt ? kWideRows : 1) * (s.heads / s.kv_heads) > kWideSide;
  constexpr int kManyStages = kServes ? 3 : 2;
  if (many && WideSizes<2>::bytes(s.head_dim, kServes, kManyStages) <= limit) {
    return launch_wide<T, 2, kServes, kManyStages>(a, stream);
  }
  if (WideSizes<1>::bytes(s.head_dim, kServes, 3) <= limit) {
    return launch_wide<T, 1, kServes, 3>(a, stream);
  }
  if constexpr (!kServes) {
    if (WideSizes<1>::bytes(s.head_dim, kServes, 2) <= limit) {
      return launch_wide<T, 1, kServes, 2>(a, stream);
    }
  }
  launch_wide<T, 1, kServes, 1>(a, stream);
}

template <class T>
void launch_type(const AttentionLaunch& a, Stream stream) {
  a.spec.keys_serve ? launch_stages<T, true>(a, stream) : launch_stages<T, false>(a, stream);
}

}  // namespace

template <>
void launch_attention<kernel_id("attention_wide")>(const AttentionLaunch& a, Stream stream) {
  check_attention(a);
  check(a.code != AttentionCode::Plain && wide_takes(a.spec), "attention_wide takes the heads");
  if (a.decode.depth > 0 ? a.rows == 0 : a.prefill.count == 0) return;
  a.type == DType::F16 ? launch_type<Half>(a, stream) : launch_type<Bf16>(a, stream);
}

}  // namespace skald::cuda
