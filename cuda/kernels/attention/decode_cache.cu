// decode_cache: all keys and values that the step's rows see become plain numbers, for kernels that
// read no codes. It reads the codes and writes the plain numbers once, at the memory's speed.
//
// The tokens of all sequences and their KV heads are one list of tasks, each kTogether adjacent
// tokens of keys or of values; the warps of the grid take them in turn.
#include "cuda/kernels/attention/attention.h"
#include "cuda/kernels/attention/cache_codes.cuh"
#include "cuda/kernels/attention/kv_page.cuh"
#include "cuda/kernels/device/launch.cuh"
#include "engine/base/check.h"

namespace skald::cuda {
namespace {

constexpr int kWarps = 4, kTogether = 8, kBlocksEach = 8;  // blocks of a multiprocessor

// What the step's rows of a sequence see.
struct Seen {
  int first = 0, end = 0, tasks = 0;
};

// kTogether tokens of a page become plain numbers, but for those from `count` on.
template <class T, int kChunks>
__device__ void decode_tokens(const AttentionLaunch& a, int page, int in_page, int count, int head,
                              bool values) {
  const AttentionSpec& s = a.spec;
  const LayerCache layer(a.cache_types, s.kv_heads, s.head_dim);
  CacheHalf half = layer.keys;
  if (values) half = layer.values;
  const CacheRow row = cache_row(layer, values, coded_page(a, page), head, in_page);
  const auto row_of = [&](int i) {
    return CacheRow{row.codes + i * half.row_bytes(), row.scales + i * half.scale_bytes() / 2};
  };
  T* const plain = page_keys<T>(a, page, head) + int64_t{in_page} * s.head_dim +
                   (values ? keys_to_values(s) : 0);
  const auto store = [&](int i, HeadNumbers<kChunks> numbers) {
    if (is_rotated(half.type)) numbers.rotate(s.head_dim);
    numbers.store(plain + int64_t{i} * s.head_dim, s.head_dim);
  };
  if (!loads_codes(half.type, s.head_dim)) {
    for (int i = 0; i < count; ++i) {
      store(i, load_numbers<kChunks>(half.type, row_of(i), s.head_dim));
    }
    return;
  }
  HeadCodes<kChunks> codes[kTogether];
#pragma unroll
  for (int i = 0; i < kTogether; ++i) codes[i].load(half.type, row_of(i), s.head_dim);
#pragma unroll
  for (int i = 0; i < kTogether; ++i) {
    if (i < count) store(i, codes[i].numbers(half.type, s.head_dim));
  }
}

template <class T, int kChunks>
__global__ void __launch_bounds__(kWarps * 32) decode_cache(AttentionLaunch a) {
  const AttentionSpec& s = a.spec;
  const int halves = s.keys_serve ? 1 : 2, lane = static_cast<int>(threadIdx.x) % 32;
  const int sequences = a.step.sequences[a.rows - 1] + 1;
  const int warps = static_cast<int>(gridDim.x) * kWarps;
  int task = static_cast<int>(blockIdx.x * kWarps + threadIdx.x / 32);
  let_next_kernel_start();
  wait_for_kernel_ahead();
  for (int chunk = 0; chunk < sequences; chunk += 32) {
    Seen own;
    if (chunk + lane < sequences) {
      const int begin = a.step.begins[chunk + lane], last = a.step.begins[chunk + lane + 1] - 1;
      own.end = a.step.positions[last] + 1;
      own.first = window_start(s, a.step.positions[begin]) / kTogether * kTogether;
      own.tasks = (own.end - own.first + kTogether - 1) / kTogether * s.kv_heads * halves;
    }
    for (int i = 0; i < min(32, sequences - chunk); ++i) {
      const int tasks = __shfl_sync(~0u, own.tasks, i);
      const int first = __shfl_sync(~0u, own.first, i), end = __shfl_sync(~0u, own.end, i);
      const int32_t* const pages =
          a.step.page_table + int64_t{chunk + i} * a.step.pages_per_sequence;
      const int groups = (end - first + kTogether - 1) / kTogether;
      for (; task < tasks; task += warps) {
        const int rest = task / groups, token = first + (task - rest * groups) * kTogether;
        const int head = rest / halves;
        decode_tokens<T, kChunks>(a, pages[token / kPageTokens], token % kPageTokens,
                                  min(kTogether, end - token), head, rest - head * halves == 1);
      }
      task -= tasks;
    }
  }
}

}  // namespace

void launch_decode_cache(const AttentionLaunch& a, Stream stream) {
  check_attention(a);
  check(a.coded.data, "there is a cache of codes");
  if (a.rows == 0) return;
  const Grid grid = {dim3(kBlocksEach * a.multiprocessors), kWarps * 32, 0, a.dependent};
  dispatch(a.type, [&](auto type) {
    using T = decltype(type);
    constexpr int kMost = (kMaxHeadDim + 127) / 128;
    launch_kernel(a.spec.head_dim <= 128 ? decode_cache<T, 1> : decode_cache<T, kMost>, grid,
                  stream, a);
  });
}

}  // namespace skald::cuda
