// encode_cache: the step's new keys and values become codes in the cache. They lie in the plain
// cache, where what the codes say replaces them, so that every step reads the same numbers. A warp
// for each row, KV head, and keys or values. Its time is that of a few dependent loads.
#include "cuda/kernels/attention/attention.h"
#include "cuda/kernels/attention/cache_codes.cuh"
#include "cuda/kernels/attention/kv_page.cuh"
#include "cuda/kernels/device/launch.cuh"
#include "engine/base/check.h"

namespace skald::cuda {
namespace {

constexpr int kWarps = 4;

template <class T, int kChunks>
__global__ void __launch_bounds__(kWarps * 32) encode_cache(AttentionLaunch a) {
  const AttentionSpec& s = a.spec;
  const int halves = s.keys_serve ? 1 : 2, tasks = s.kv_heads * halves;
  const int row = blockIdx.x, task = static_cast<int>(blockIdx.y * kWarps + threadIdx.x / 32);
  let_next_kernel_start();
  wait_for_kernel_ahead();
  if (task >= tasks) return;
  const int head = task / halves, position = a.step.positions[row], token = position % kPageTokens;
  const bool values = task % halves == 1;
  const int page = pages_of(a, row)[position / kPageTokens];
  T* const plain =
      page_keys<T>(a, page, head) + int64_t{token} * s.head_dim + (values ? keys_to_values(s) : 0);
  const LayerCache layer(a.cache_types, s.kv_heads, s.head_dim);
  const CacheType type = values ? a.cache_types.values : a.cache_types.keys;
  HeadNumbers<kChunks> numbers;
  numbers.load(plain, s.head_dim);
  if (is_rotated(type)) numbers.rotate(s.head_dim);
  encode_head(type, numbers, s.head_dim,
              cache_row(layer, values, coded_page(a, page), head, token));
  if (is_rotated(type)) numbers.rotate(s.head_dim);
  numbers.store(plain, s.head_dim);
}

}  // namespace

void launch_encode_cache(const AttentionLaunch& a, Stream stream) {
  check_attention(a);
  check(a.coded.data, "there is a cache of codes");
  if (a.rows == 0) return;
  const int tasks = a.spec.kv_heads * (a.spec.keys_serve ? 1 : 2);
  const Grid grid = {dim3(a.rows, (tasks + kWarps - 1) / kWarps), kWarps * 32, 0, a.dependent};
  dispatch(a.type, [&](auto type) {
    using T = decltype(type);
    constexpr int kMost = (kMaxHeadDim + 127) / 128;
    launch_kernel(a.spec.head_dim <= 128 ? encode_cache<T, 1> : encode_cache<T, kMost>, grid,
                  stream, a);
  });
}

}  // namespace skald::cuda
