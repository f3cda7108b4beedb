// Attention of prompts to latents: all heads share one head of keys, which serves as values too.
//
// Floor: 6 * head_dim operations for each query head, row and visible key. Scores are computed
// twice: first for the maximum and the sum of each query's weights, then for the weights. So the
// output stays in registers and is never scaled.
//
// Split: a block takes kQueries queries of a tile of rows, numbered row-major (row, head). A tile
// of keys in shared memory serves all of them, as keys and as values.
#include <mma.h>

#include "cuda/kernels/attention/attention.h"
#include "cuda/kernels/attention/attention_split.h"
#include "cuda/kernels/attention/kv_page.cuh"
#include "cuda/kernels/device/launch.cuh"
#include "cuda/kernels/device/mma.cuh"
#include "engine/base/check.h"

namespace skald::cuda {
namespace {

constexpr int kQueries = 32, kKeys = 32;  // of a block, and of a tile of keys
constexpr int kSide = 16;                 // of a matrix that one instruction multiplies
constexpr int kWarps = 8, kThreads = kWarps * 32;
[[maybe_unused]] constexpr int kLanes = kThreads / kQueries;  // threads that share a query's scores
// Rows in shared memory are a little longer than their numbers, so that rows lie in other banks.
constexpr int kMoreNumbers = 8, kScoreCols = kKeys + 4, kWeightCols = kKeys + 8;
constexpr int kColumnWarps = kWarps / (kQueries / kSide);  // that share the output's columns
[[maybe_unused]] constexpr int kMostOuts = (kMaxHeadDim / kSide + kColumnWarps - 1) / kColumnWarps;

struct LatentMemory {
  int64_t stride;  // numbers from one row of queries or keys to the next

  __host__ __device__ explicit LatentMemory(int head_dim) : stride(head_dim + kMoreNumbers) {}
  // Bytes before each part.
  __host__ __device__ int64_t keys() const { return kQueries * stride * 2; }
  __host__ __device__ int64_t scores() const { return keys() + kKeys * stride * 2; }
  __host__ __device__ int64_t weights() const { return scores() + 2 * kQueries * kScoreCols * 4; }
  __host__ __device__ int64_t bytes() const { return weights() + kQueries * kWeightCols * 2; }
};

template <class T>
__global__ void __launch_bounds__(kThreads, 2) attend_latent(AttentionLaunch a) {
#if SKALD_HAS_MMA
  namespace wmma = nvcuda::wmma;
  using Left = wmma::fragment<wmma::matrix_a, kSide, kSide, kSide, T, wmma::row_major>;
  using KeysRight = wmma::fragment<wmma::matrix_b, kSide, kSide, kSide, T, wmma::col_major>;
  using ValuesRight = wmma::fragment<wmma::matrix_b, kSide, kSide, kSide, T, wmma::row_major>;
  using Sums = wmma::fragment<wmma::accumulator, kSide, kSide, kSide, float>;
  extern __shared__ uint4 memory[];
  const AttentionSpec& s = a.spec;
  const int dim = s.head_dim, eights = dim / 8, steps = dim / kSide;
  const LatentMemory parts(dim);
  const int64_t stride = parts.stride;
  auto* bytes = reinterpret_cast<char*>(memory);
  T* queries = reinterpret_cast<T*>(bytes);
  T* keys = reinterpret_cast<T*>(bytes + parts.keys());
  auto* scores = reinterpret_cast<float*>(bytes + parts.scores());  // two halves, to be added
  T* weights = reinterpret_cast<T*>(bytes + parts.weights());
  let_next_kernel_start();
  wait_for_kernel_ahead();

  const AttentionTile tile = a.prefill.tiles[blockIdx.x];
  const int first = blockIdx.y * kQueries, all = tile.rows * s.heads;
  if (first >= all) return;
  const int thread = threadIdx.x, warp = thread / 32;
  const auto row_of = [&](int query) { return tile.row + (first + query) / s.heads; };
  for (int i = thread; i < kQueries * eights; i += kThreads) {
    const int query = i / eights, at = i % eights * 8;
    uint4 some = {0, 0, 0, 0};
    if (first + query < all) {
      const T* from = static_cast<const T*>(a.qkv) +
                      (int64_t{row_of(query)} * row_heads(a) + (first + query) % s.heads) * dim;
      some = *reinterpret_cast<const uint4*>(from + at);
    }
    *reinterpret_cast<uint4*>(queries + query * stride + at) = some;
  }
  // The query whose scores the thread computes with its neighbours.
  const int own = thread / kLanes, lane = thread % kLanes;
  const int own_position = first + own < all ? a.step.positions[row_of(own)] : -1;
  const int last_query = min(kQueries, all - first) - 1;
  const int last = a.step.positions[row_of(last_query)];  // no query sees more
  const int32_t* pages = pages_of(a, tile.row);

  Sums out[kMostOuts];
#pragma unroll
  for (Sums& sums : out) wmma::fill_fragment(sums, 0.0f);
  const int out_row = warp % (kQueries / kSide) * kSide, out_first = warp / (kQueries / kSide);
  float maximum = -INFINITY, total = 0;
#pragma unroll 1
  for (int pass = 0; pass < 2; ++pass) {
#pragma unroll 1
    for (int begin = 0; begin <= last; begin += kKeys) {
      __syncthreads();
      for (int i = thread; i < kKeys * eights; i += kThreads) {
        const int key = i / eights, at = i % eights * 8, token = begin + key;
        uint4 some = {0, 0, 0, 0};  // what is beyond may be no number
        if (token <= last) {
          const T* from =
              page_keys<T>(a, pages[token / kPageTokens], 0) + int64_t{token % kPageTokens} * dim;
          some = *reinterpret_cast<const uint4*>(from + at);
        }
        *reinterpret_cast<uint4*>(keys + key * stride + at) = some;
      }
      __syncthreads();
      {
        const int row = warp % 2 * kSide, col = warp / 2 % 2 * kSide, half = warp / 4;
        const int middle = steps / 2, end = half ? steps : middle;
        Sums sums;
        wmma::fill_fragment(sums, 0.0f);
        for (int step = half ? middle : 0; step < end; ++step) {
          Left left;
          KeysRight right;
          wmma::load_matrix_sync(left, queries + row * stride + step * kSide, stride);
          wmma::load_matrix_sync(right, keys + col * stride + step * kSide, stride);
          wmma::mma_sync(sums, left, right, sums);
        }
        wmma::store_matrix_sync(scores + (half * kQueries + row) * kScoreCols + col, sums,
                                kScoreCols, wmma::mem_row_major);
      }
      __syncthreads();
      float mine[kKeys / kLanes];
#pragma unroll
      for (int i = 0; i < kKeys / kLanes; ++i) {
        const int key = lane + i * kLanes;
        const float score =
            scores[own * kScoreCols + key] + scores[(kQueries + own) * kScoreCols + key];
        mine[i] = begin + key <= own_position ? score * s.scale : -INFINITY;
      }
      if (pass == 0) {
        float higher = maximum;
#pragma unroll
        for (float score : mine) higher = fmaxf(higher, score);
#pragma unroll
        for (int offset = kLanes / 2; offset > 0; offset /= 2) {
          higher = fmaxf(higher, __shfl_xor_sync(~0u, higher, offset));
        }
        float sum = 0;
        if (higher > -INFINITY) {
#pragma unroll
          for (float score : mine) sum += expf(score - higher);
          total *= expf(maximum - higher);
        }
#pragma unroll
        for (int offset = kLanes / 2; offset > 0; offset /= 2) {
          sum += __shfl_xor_sync(~0u, sum, offset);
        }
        total += sum;
        maximum = higher;
        continue;
      }
#pragma unroll
      for (int i = 0; i < kKeys / kLanes; ++i) {
        const float weight = total > 0 ? expf(mine[i] - maximum) / total : 0;
        weights[own * kWeightCols + lane + i * kLanes] = from_float<T>(weight);
      }
      __syncthreads();
#pragma unroll
      for (int step = 0; step < kKeys / kSide; ++step) {
        Left left;
        wmma::load_matrix_sync(left, weights + out_row * kWeightCols + step * kSide, kWeightCols);
#pragma unroll
        for (int i = 0; i < kMostOuts; ++i) {
          const int col = out_first + i * kColumnWarps;
          if (col >= steps) break;
          ValuesRight right;
          wmma::load_matrix_sync(right, keys + step * kSide * stride + col * kSide, stride);
          wmma::mma_sync(out[i], left, right, out[i]);
        }
      }
    }
  }

  __syncthreads();  // the scores' memory is free
  float* own_patch = scores + warp * kSide * kSide;
  static_assert(kWarps * kSide * kSide <= 2 * kQueries * kScoreCols);
#pragma unroll
  for (int i = 0; i < kMostOuts; ++i) {
    const int col = out_first + i * kColumnWarps;
    if (col >= steps) break;
    wmma::store_matrix_sync(own_patch, out[i], kSide, wmma::mem_row_major);
    __syncwarp();
    for (int at = thread % 32; at < kSide * kSide; at += 32) {
      const int query = out_row + at / kSide;
      if (first + query >= all) continue;
      const int64_t place = (int64_t{tile.row} * s.heads + first + query) * dim;
      static_cast<T*>(a.out)[place + col * kSide + at % kSide] = from_float<T>(own_patch[at]);
    }
    __syncwarp();
  }
#endif
}

template <class T>
void launch_latent(const AttentionLaunch& a, Stream stream) {
  const auto bytes = static_cast<int>(LatentMemory(a.spec.head_dim).bytes());
  const auto kernel = attend_latent<T>;
  SKALD_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  const int queries = kLatentRows * a.spec.heads;
  const dim3 blocks(static_cast<unsigned>(a.prefill.count),
                    static_cast<unsigned>((queries + kQueries - 1) / kQueries));
  launch_kernel(kernel, {blocks, kThreads, static_cast<size_t>(bytes), a.dependent}, stream, a);
}

}  // namespace

template <>
void launch_attention<kernel_id("attention_latent")>(const AttentionLaunch& a, Stream stream) {
  check_attention(a);
  check(a.code != AttentionCode::Plain && latent_takes(a.spec), "attention_latent takes the heads");
  if (a.prefill.count == 0) return;
  a.type == DType::F16 ? launch_latent<Half>(a, stream) : launch_latent<Bf16>(a, stream);
}

}  // namespace skald::cuda
