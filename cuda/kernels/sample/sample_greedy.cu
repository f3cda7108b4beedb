// The best token of each row, for launches whose rows need nothing else. Floor as in sample.cu.
//
// A cluster holds a row in its registers, so that the row is read once. Every warp sends its best
// key to all blocks, and then its part of the total weight to the block that reports.
#include <cfloat>

#include "cuda/kernels/device/cluster.cuh"
#include "cuda/kernels/device/launch.cuh"
#include "cuda/kernels/device/ptx.cuh"
#include "cuda/kernels/sample/pick.cuh"
#include "cuda/kernels/sample/sample.h"

namespace skald::cuda {
namespace {

// The largest possible cluster, of blocks so small that each fits beside other blocks.
constexpr int kBlocks = 16, kThreads = 512, kWarps = kThreads / 32;
constexpr int kFew = 4, kMany = 8;  // float4 of a thread

// One word from every warp of the cluster.
struct Words {
  uint64_t of_warp[kBlocks * kWarps];
  alignas(8) uint64_t barrier;
};

struct GreedyShared {
  Words bests, totals;  // only block 0 receives totals
  int bad, first_bad;   // only block 0's are used
};

template <int kFours>
struct RowPart {
  float x[4 * kFours];  // -inf in places without a token
  int first;            // the thread's first token; its next four lie kThreads float4 further

  __device__ RowPart(const float* row, int vocab) {
    const int each = (vocab + 4 * kBlocks - 1) / (4 * kBlocks);  // float4 of a block
    const int begin = static_cast<int>(blockIdx.x) * each;
    first = 4 * (begin + static_cast<int>(threadIdx.x));
    const bool aligned = vocab % 4 == 0;
#pragma unroll
    for (int k = 0; k < kFours; ++k) {
      const int at = token(k, 0);
      const bool mine = static_cast<int>(threadIdx.x) + k * kThreads < each;
      float4 four = make_float4(-INFINITY, -INFINITY, -INFINITY, -INFINITY);
      if (mine && aligned && at < vocab) {
        four = *reinterpret_cast<const float4*>(row + at);
      } else if (mine && !aligned) {
        if (at < vocab) four.x = row[at];
        if (at + 1 < vocab) four.y = row[at + 1];
        if (at + 2 < vocab) four.z = row[at + 2];
        if (at + 3 < vocab) four.w = row[at + 3];
      }
      x[4 * k] = four.x, x[4 * k + 1] = four.y, x[4 * k + 2] = four.z, x[4 * k + 3] = four.w;
    }
  }
  __device__ int token(int k, int j) const { return first + 4 * k * kThreads + j; }

  __device__ uint64_t best() const {
    float best = -INFINITY;
    int id = 0;
    bool bad = false;
#pragma unroll
    for (int i = 0; i < 4 * kFours; ++i) {
      bad |= !(x[i] <= FLT_MAX);
      if (x[i] > best) best = x[i], id = token(i / 4, i % 4);
    }
    return bad ? kBadKey : rank_key(best, id);
  }

  __device__ uint64_t weight(float best) const {
    uint64_t sum = 0;
#pragma unroll
    for (float logit : x) sum += weight_units(exp_nonpositive(logit - best));
    return sum;
  }
};

template <int kFours>
__global__ void __launch_bounds__(kThreads) sample_greedy(const __grid_constant__ SampleLaunch a) {
#if __CUDA_ARCH__ >= 900
  let_next_kernel_start();
  __shared__ GreedyShared shared;
  const int block = static_cast<int>(blockIdx.x), row = static_cast<int>(blockIdx.y);
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const bool reports = block == 0 && threadIdx.x == 0;
  const auto expect = [](Words& words) {
    barrier_init(&words.barrier, 1);
    barrier_init_fence();
    barrier_expect_bytes(&words.barrier, sizeof words.of_warp);
  };
  if (threadIdx.x == 0) {
    expect(shared.bests);
    if (block == 0) expect(shared.totals);
    shared.bad = 0, shared.first_bad = static_cast<int>(a.vocab);
  }
  cluster_arrive();
  NextRow next = {};
  if (reports) next = a.rows[row].next;
  const float* const logits = a.logits + row * a.vocab;
  const RowPart<kFours> part(logits, static_cast<int>(a.vocab));
  const uint64_t mine = warp_best(part.best());
  cluster_wait();
  uint64_t* const place = &shared.bests.of_warp[block * kWarps + warp];
  if (lane < kBlocks) send_word(place, mine, &shared.bests.barrier, lane);
  receive(&shared.bests.barrier, 0);
  uint64_t best = 0;
#pragma unroll
  for (int i = 0; i < kBlocks * kWarps / 32; ++i) {
    const uint64_t other = shared.bests.of_warp[lane + 32 * i];
    best = other > best ? other : best;
  }
  best = warp_best(best);
  SampleResult& result = a.results[row];
  if (best == kBadKey) {
    int bad = 0, first_bad = static_cast<int>(a.vocab);
#pragma unroll
    for (int i = 0; i < 4 * kFours; ++i) {
      if (part.x[i] <= FLT_MAX) continue;
      ++bad;
      first_bad = min(first_bad, part.token(i / 4, i % 4));
    }
    if (bad > 0) {
      atomicAdd(of_block(&shared.bad, 0), bad);
      atomicMin(of_block(&shared.first_bad, 0), first_bad);
    }
    cluster_arrive();
    cluster_wait();
    if (!reports) return;
    result.bad = shared.bad;
    result.first_bad = shared.first_bad;
    return end_pick(a, row, next, SampleStatus::NotFinite, 0);
  }
  const float best_logit = logit_of_key(best);
  if (best_logit < -FLT_MAX) {
    if (reports) end_pick(a, row, next, SampleStatus::AllMasked, 0);
    return;
  }
  const uint64_t weight = warp_sum(part.weight(best_logit));
  uint64_t* const total_place = &shared.totals.of_warp[block * kWarps + warp];
  if (lane == 0) send_word(total_place, weight, &shared.totals.barrier, 0);
  if (block > 0 || warp > 0) return;
  const int token = id_of_key(best);
  // A key does not have the sign of a zero, so a zero is read from the logits.
  const float logit = best_logit != 0 ? best_logit : logits[token];
  receive(&shared.totals.barrier, 0);
  uint64_t total = 0;
#pragma unroll
  for (int i = 0; i < kBlocks * kWarps / 32; ++i) total += shared.totals.of_warp[lane + 32 * i];
  total = warp_sum(total);
  if (!reports) return;
  result.token = token;
  result.logit = logit;
  result.best = best_logit;
  result.total = total;
  result.top_tokens = 0;
  end_pick(a, row, next, SampleStatus::Picked, token);
#endif
}

auto kernel_for(int64_t vocab) {
  return vocab <= int64_t{kBlocks} * kThreads * 4 * kFew ? sample_greedy<kFew>
                                                         : sample_greedy<kMany>;
}

cudaLaunchConfig_t config_for(int rows, cudaLaunchAttribute& cluster) {
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim.x = kBlocks;
  cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(kBlocks, rows);
  config.blockDim = dim3(kThreads);
  config.attrs = &cluster;
  config.numAttrs = 1;
  return config;
}

}  // namespace

bool has_sample_greedy(int64_t vocab) {
  if (vocab > int64_t{kBlocks} * kThreads * 4 * kMany) return false;
  const auto kernel = kernel_for(vocab);
  SKALD_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
  cudaLaunchAttribute cluster = {};
  const cudaLaunchConfig_t config = config_for(1, cluster);
  int clusters = 0;  // clusters that run at a time
  SKALD_CUDA(cudaOccupancyMaxActiveClusters(&clusters, kernel, &config));
  return clusters > 0;
}

void launch_sample_greedy(const SampleLaunch& a, Stream stream) {
  if (a.count == 0) return;
  const auto kernel = kernel_for(a.vocab);
  SKALD_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
  cudaLaunchAttribute cluster = {};
  cudaLaunchConfig_t config = config_for(a.count, cluster);
  config.stream = stream;
  SKALD_CUDA(cudaLaunchKernelEx(&config, kernel, a));
}

}  // namespace skald::cuda
