// attention_decode for a cache of codes, which it reads without a plain cache between
// (decode_codes.cuh). Products are of f16 whatever the activations' type. All else is as in
// attention_decode.cu. If the values are rotated, rotate_output rotates the output back.
#include <algorithm>

#include "cuda/kernels/attention/attention.h"
#include "cuda/kernels/attention/decode_block.cuh"
#include "cuda/kernels/attention/decode_codes.cuh"
#include "cuda/kernels/device/launch.cuh"
#include "engine/base/check.h"

namespace skald::cuda {
namespace {

// Strips that a warp takes at once, and blocks that then fit on a multiprocessor.
template <int kDim>
constexpr int kTogetherOfCodes = kDim <= 128 ? 2 : 1;
template <int kDim>
constexpr int kBlocksOfCodes = kDim <= 128 ? 4 : 2;

template <class T, CacheType kType, int kDim>
using CodesOf = StripsOfCodes<T, kType, kDim, kTogetherOfCodes<kDim>, kDecodeStep>;

template <class T, CacheType kType, int kDim>
__global__ void __launch_bounds__(kDecodeThreads, kBlocksOfCodes<kDim>)
    attend_decode_codes(const __grid_constant__ AttentionLaunch a,
                        const __grid_constant__ DecodeHeads all) {
#if SKALD_HAS_MMA && __CUDA_ARCH__ >= 900
  attend_run<T, kDim, true, kTogetherOfCodes<kDim>, CodesOf<T, kType, kDim>>(a, all);
#endif
}

template <class T, CacheType kType, int kDim>
void launch_codes(const AttentionLaunch& a, Stream stream) {
  const Split split =
      split_for(a.rows, a.spec, a.decode.depth, {a.multiprocessors, kBlocksOfCodes<kDim>, true});
  const auto bytes = [&](int heads, int cluster) {
    return kDecodeWarps * CodesOf<T, kType, kDim>::kWarpBytes +
           inbox_bytes(heads * kDim / 4, cluster, kDecodeWarps);
  };
  const int heads = std::min(a.spec.heads / a.spec.kv_heads, kTileHeads);
  launch_decode_blocks(attend_decode_codes<T, kType, kDim>, a, split, true,
                       {bytes(heads, split.cluster), bytes(kTileHeads, kMaxCluster)}, stream);
}

template <class T, CacheType kType>
void launch_codes(const AttentionLaunch& a, Stream stream) {
  switch (a.spec.head_dim) {
    case 64:
      return launch_codes<T, kType, 64>(a, stream);
    case 128:
      return launch_codes<T, kType, 128>(a, stream);
    default:
      return launch_codes<T, kType, 256>(a, stream);
  }
}

// A warp for each head of a row.
template <class T>
__global__ void __launch_bounds__(kDecodeThreads) rotate_output(AttentionLaunch a) {
  const int64_t head = int64_t{blockIdx.x} * kDecodeWarps + threadIdx.x / 32;
  let_next_kernel_start();
  wait_for_kernel_ahead();
  if (head >= int64_t{a.rows} * a.spec.heads) return;
  T* const numbers = static_cast<T*>(a.out) + head * a.spec.head_dim;
  HeadNumbers<2> rotated;
  rotated.load(numbers, a.spec.head_dim);
  rotated.rotate(a.spec.head_dim);
  rotated.store(numbers, a.spec.head_dim);
}

template <class T>
void launch_codes(const AttentionLaunch& a, Stream stream) {
  switch (a.cache_types.keys) {
    case CacheType::Q8_0:
      return launch_codes<T, CacheType::Q8_0>(a, stream);
    case CacheType::FP8:
      return launch_codes<T, CacheType::FP8>(a, stream);
    default:
      break;
  }
  check(!a.decode.prepares.memory, "rotated results are rotated back before they are prepared");
  launch_codes<T, CacheType::Q4_0>(a, stream);
  const int blocks = (a.rows * a.spec.heads + kDecodeWarps - 1) / kDecodeWarps;
  launch_kernel(rotate_output<T>, {dim3(blocks), kDecodeThreads, 0, true}, stream, a);
}

}  // namespace

template <>
void launch_attention<kernel_id("attention_decode_codes_sm90")>(const AttentionLaunch& asked,
                                                                Stream stream) {
  const AttentionLaunch a = decode_launch(asked);
  check(a.coded.data && codes_takes(a.spec) && codes_takes(a.cache_types),
        "attention_decode_codes_sm90 reads a cache of codes of one type");
  if (a.rows == 0) return;
  a.type == DType::F16 ? launch_codes<Half>(a, stream) : launch_codes<Bf16>(a, stream);
}

}  // namespace skald::cuda
