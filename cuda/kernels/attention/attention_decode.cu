// Decode attention: rotation, append and attention for rows of different sequences, in one kernel.
//
// Floor: each sequence's keys and values read once, context * kv_heads * head_dim * 2 numbers. At
// short contexts that takes less than a microsecond, and the chain of dependent instructions is the
// cost. So the kernel computes before its wait whatever does not depend on the kernel ahead, and a
// warp takes 32 tokens at once if its registers hold them.
//
// Split: a block takes up to kTileHeads query heads of one KV head and a run of the row's tokens.
// The launch fixes the number of runs, since graphs replay it. The position fixes their length, and
// clusters without a run exit. A warp brings strips of 16 tokens into the registers of matrix
// products (decode_attend.cuh): straight from memory (decode_strip.cuh) or, if there is much to
// read, through a ring (decode_ring.cuh). The order of dimensions and tokens in a product's sum is
// free, so lanes load 16 adjacent bytes. Strips are fetched before the wait for the kernel ahead.
// The new token does not come through the cache: the block of the last run puts it into its strip.
//
// Merging, always in the same order: the warps of a cluster send their results to its blocks
// (decode_inbox.cuh), and each block merges a share of the output. Clusters merge through the
// workspace: the block that is the last to finish its share merges it.
#include <algorithm>
#include <cstdint>

#include "cuda/gpu/kernel_code.h"
#include "cuda/kernels/attention/attention.h"
#include "cuda/kernels/attention/decode_block.cuh"
#include "cuda/kernels/attention/decode_ring.cuh"
#include "cuda/kernels/attention/decode_strip.cuh"
#include "cuda/kernels/device/launch.cuh"
#include "engine/base/check.h"

namespace skald::cuda {
namespace {

// How strips reach registers. Registers: direct loads. Few: direct loads into more registers, for
// steps that read so little that they need few blocks. Ring: on sm_90, through a ring that bulk
// copies fill. WideRing: a larger ring, for so few blocks that each can have a multiprocessor,
// beside a block of gemm_q_sm90. It takes more than half of the shared memory, so that no two
// blocks share a multiprocessor while others idle. All but Registers are for heads of exactly kDim
// dimensions.
enum class Way { Registers, Few, Ring, WideRing };

// kTogether: strips that a warp takes at once. kBlocks: blocks that then fit on a multiprocessor.
template <int kDim, Way kWay>
constexpr int kTogether = kWay == Way::WideRing                                   ? 3
                          : kDim <= 64 || (kWay != Way::Registers && kDim <= 128) ? 2
                                                                                  : 1;
template <int kDim, Way kWay>
constexpr int kBlocks = kWay >= Way::Ring  ? std::max(1, 256 / kDim)
                        : kWay == Way::Few ? kResident - 1
                        : kDim <= 128      ? kResident
                                           : 1;
// The most registers of a thread. kBlocks limits them, and so does a block of another kernel
// beside: 224 beside gemv_q_sm90, 128 beside gemm_q_sm90. Toolkits before 12.4 have launch bounds
// alone.
#if __CUDACC_VER_MAJOR__ * 100 + __CUDACC_VER_MINOR__ >= 1204
template <int kDim, Way kWay>
constexpr int kMostRegisters = kWay == Way::Few ? 224
                               : (kWay >= Way::Ring && kDim <= 128)
                                   ? 128
                                   : std::min(255,
                                              65536 / kDecodeThreads / kBlocks<kDim, kWay> / 8 * 8);
#define SKALD_ATTEND_BOUNDS __maxnreg__((kMostRegisters<kDim, kWay>))
#else
#define SKALD_ATTEND_BOUNDS __launch_bounds__(kDecodeThreads, kBlocks<kDim, kWay>)
#endif

template <class T, int kDim, bool kExact, Way kWay>
struct SourceOf {
  using type = StripsInRegisters<T, kDim, kExact, kTogether<kDim, kWay>, kDecodeStep>;
};
template <class T, int kDim>
struct SourceOf<T, kDim, true, Way::Ring> {
  using type = StripsInRing<T, kDim, kTogether<kDim, Way::Ring>, kDecodeStep>;
};
template <class T, int kDim>
struct SourceOf<T, kDim, true, Way::WideRing> {
  using type = StripsInRing<T, kDim, kTogether<kDim, Way::WideRing>, kDecodeStep>;
};

// WideRing is for heads of 128 dimensions and for few heads in a group, so that the memory for
// merging leaves room for the ring. Besides its dynamic memory a block has static variables and 1
// KB that CUDA takes.
constexpr int kWideDim = 128, kWideHeads = 4, kWideBytes = 109 * 1024;
constexpr int kOwnBytes = 4352 + 1024, kProductsOwnBytes = 656 + 1024, kSm90Bytes = 228 * 1024;
static_assert(2 * (kWideBytes + kOwnBytes) > kSm90Bytes);
static_assert(kWideBytes + kOwnBytes + kBytesBesideAttention + kProductsOwnBytes <= kSm90Bytes);

bool has_wide_ring(const AttentionLaunch& a) {
  const AttentionSpec& s = a.spec;
  const Split split = split_for(a.rows, s, a.decode.depth,
                                {a.multiprocessors, kBlocks<kWideDim, Way::WideRing>, true});
  return a.decode.prepares.memory && s.heads / s.kv_heads <= kWideHeads &&
         int64_t{split.runs} * s.kv_heads * a.rows <= a.multiprocessors;
}

template <class T, int kDim, bool kExact, Way kWay>
__global__ void SKALD_ATTEND_BOUNDS attend_decode(const __grid_constant__ AttentionLaunch a,
                                                  const __grid_constant__ DecodeHeads all) {
#if SKALD_HAS_MMA
#if __CUDA_ARCH__ >= 900
  constexpr bool kLaunched = true;
#else
  constexpr bool kLaunched = kWay == Way::Registers;
#endif
  if constexpr (kLaunched) {
    using Source = typename SourceOf<T, kDim, kExact, kWay>::type;
    attend_run<T, kDim, kExact, kTogether<kDim, kWay>, Source>(a, all);
  }
#endif
}

template <class T, int kDim, bool kExact, Way kWay>
void launch_decode(const AttentionLaunch& a, Stream stream) {
  const bool clusters = a.code == AttentionCode::Wgmma;
  const Split split =
      split_for(a.rows, a.spec, a.decode.depth, {a.multiprocessors, kBlocks<kDim, kWay>, clusters});
  constexpr int kRingBytes = kDecodeWarps * SourceOf<T, kDim, kExact, kWay>::type::kWarpBytes;
  const auto bytes = [&](int heads, int cluster) {
    return kRingBytes + inbox_bytes(heads * kDim / 4, cluster, kDecodeWarps);
  };
  const auto kernel = attend_decode<T, kDim, kExact, kWay>;
  int dynamic = bytes(std::min(a.spec.heads / a.spec.kv_heads, kTileHeads), split.cluster);
  if (kWay == Way::WideRing) dynamic = std::max(dynamic, kWideBytes);
  const DecodeBytes memory = {dynamic, std::max(dynamic, bytes(kTileHeads, kMaxCluster))};
  launch_decode_blocks(kernel, a, split, clusters, memory, stream);
}

template <class T, int kDim, bool kExact>
void launch_decode(const AttentionLaunch& a, Stream stream) {
  if constexpr (kExact) {
    // Rings leave no room beside them for blocks of the kernels before and after. That costs more
    // than it gains if a step reads little: for few rows of small models, up to 12288 tokens.
    constexpr int64_t kRingFrom = 24 << 20, kRingFromSmall = 64 << 20;
    const int64_t bytes = int64_t{a.rows} * seen_tokens(a.spec, a.decode.depth) * a.spec.kv_heads *
                          kDim * 2 * sizeof(T);
    const bool small = kDim <= 64 && a.rows <= 4;
    if (a.code == AttentionCode::Wgmma && bytes >= (small ? kRingFromSmall : kRingFrom)) {
      if constexpr (kDim == kWideDim) {
        if (has_wide_ring(a)) return launch_decode<T, kDim, true, Way::WideRing>(a, stream);
      }
      return launch_decode<T, kDim, true, Way::Ring>(a, stream);
    }
    if constexpr (kDim == 128) {
      if (a.code == AttentionCode::Wgmma) return launch_decode<T, kDim, true, Way::Few>(a, stream);
    }
  }
  launch_decode<T, kDim, kExact, Way::Registers>(a, stream);
}

template <class T>
void launch_decode(const AttentionLaunch& a, Stream stream) {
  const int head_dim = a.spec.head_dim;
  if (head_dim == 64) return launch_decode<T, 64, true>(a, stream);
  if (head_dim == 128) return launch_decode<T, 128, true>(a, stream);
  if (head_dim < 64) return launch_decode<T, 64, false>(a, stream);
  if (head_dim < 128) return launch_decode<T, 128, false>(a, stream);
  if (head_dim <= 192) return launch_decode<T, 192, false>(a, stream);
  if (head_dim < 256) return launch_decode<T, 256, false>(a, stream);
  return launch_decode<T, 256, true>(a, stream);
}

}  // namespace

AttentionCode attention_code(DType type) {
  if (type != DType::F16 && type != DType::BF16) return AttentionCode::Plain;
  if (attention_has_wgmma()) return AttentionCode::Wgmma;
  cudaFuncAttributes code;
  SKALD_CUDA(cudaFuncGetAttributes(&code, attend_decode<Half, 128, true, Way::Registers>));
  const bool mma = is_loaded(KernelCode::Sm80, code.ptxVersion, code.binaryVersion);
  return mma ? AttentionCode::Mma : AttentionCode::Plain;
}

void launch_attention_decode(const AttentionLaunch& asked, Stream stream) {
  const AttentionLaunch a = decode_launch(asked);
  if (a.rows == 0) return;
  if (a.type == DType::F16) {
    launch_decode<Half>(a, stream);
  } else {
    launch_decode<Bf16>(a, stream);
  }
}

template <>
void launch_attention<kernel_id("attention_decode")>(const AttentionLaunch& launch, Stream stream) {
  launch_attention_decode(launch, stream);
}

}  // namespace skald::cuda
