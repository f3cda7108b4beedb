// rope_append: rotates queries and keys, and appends keys and values to the cache. One block per
// row. It reads qkv once and writes q, k and v once; its time is bytes over bandwidth.
//
// norm_rope_append: the same, with a norm of each head first. One warp per head; it reads the head
// twice.
//
// attend_plain: attention for float32 and old GPUs, without matrix products. One block for each row
// and query head; its warps take keys in turn, a lane every 32nd dimension. It reads the cache once
// for each query head.
#include "cuda/kernels/attention/attention.h"
#include "cuda/kernels/attention/kv_page.cuh"
#include "cuda/kernels/device/launch.cuh"
#include "cuda/kernels/device/math.cuh"

namespace skald::cuda {
namespace {

constexpr int kRopeThreads = 256;
constexpr int kWarps = 4;
constexpr int kLaneDims = kMaxHeadDim / 32;

// kCount: numbers in one access; divides rope_pairs and head_dim.
template <class T, int kCount>
__global__ void __launch_bounds__(kRopeThreads) rope_append(AttentionLaunch a) {
  using Some = Pack<T, kCount>;
  __shared__ Rotation rotations[kMaxHeadDim / 2];
  const AttentionSpec& s = a.spec;
  const int row = blockIdx.x, head_dim = s.head_dim, pairs = a.rope_pairs;
  const int position = a.step.positions[row];
  const float growth = s.growth.at(position);
  for (int i = threadIdx.x; i < pairs; i += kRopeThreads) {
    rotations[i] = rotation(a, position, i);
  }
  let_next_kernel_start();
  wait_for_kernel_ahead();
  __syncthreads();

  T* q = static_cast<T*>(a.qkv) + int64_t{row} * (s.heads + 2 * s.kv_heads) * head_dim;
  T* k = q + int64_t{s.heads} * head_dim;
  const T* v = k + int64_t{s.kv_heads} * head_dim;
  const int page = pages_of(a, row)[position / kPageTokens];
  const int64_t slot = int64_t{position % kPageTokens} * head_dim;

  const int units = pairs / kCount;
  for (int u = threadIdx.x; u < (s.heads + s.kv_heads) * units; u += kRopeThreads) {
    const int head = u / units, i = u % units * kCount;
    T* from = q + int64_t{head} * head_dim;
    T* to = head < s.heads ? from : page_keys<T>(a, page, head - s.heads) + slot;
    const int at_x = a.rope_interleaved ? 2 * i : i;
    const int at_y = a.rope_interleaved ? 2 * i + kCount : i + pairs;
    Some x = *reinterpret_cast<const Some*>(from + at_x);
    Some y = *reinterpret_cast<const Some*>(from + at_y);
    const float factor = head < s.heads ? growth : 1;
    const auto rotate = [&](T& first, T& second, const Rotation& r) {
      const float f = to_float(first), g = to_float(second);
      first = from_float<T>((f * r.cos - g * r.sin) * factor);
      second = from_float<T>((g * r.cos + f * r.sin) * factor);
    };
    if (kCount > 1 && a.rope_interleaved) {
#pragma unroll
      for (int j = 0; j + 1 < kCount; j += 2) {
        rotate(x.x[j], x.x[j + 1], rotations[i + j / 2]);
        rotate(y.x[j], y.x[j + 1], rotations[i + kCount / 2 + j / 2]);
      }
    } else {
#pragma unroll
      for (int j = 0; j < kCount; ++j) rotate(x.x[j], y.x[j], rotations[i + j]);
    }
    *reinterpret_cast<Some*>(to + at_x) = x;
    *reinterpret_cast<Some*>(to + at_y) = y;
  }

  // Copies what does not rotate: the values, and the other dimensions of the keys.
  const int packs = head_dim / kCount, rotated = 2 * units;
  for (int u = threadIdx.x; u < s.kv_heads * packs; u += kRopeThreads) {
    const int head = u / packs, i = u % packs;
    T* keys = page_keys<T>(a, page, head) + slot;
    const int64_t from = int64_t{head} * packs + i;
    if (i >= rotated) reinterpret_cast<Some*>(keys)[i] = reinterpret_cast<const Some*>(k)[from];
    reinterpret_cast<Some*>(keys + keys_to_values(s))[i] = reinterpret_cast<const Some*>(v)[from];
  }
}

// kCount: numbers in one access; 2 make an interleaved pair. Divides rope_pairs and head_dim.
template <class T, int kCount>
__global__ void __launch_bounds__(kRopeThreads) norm_rope_append(AttentionLaunch a) {
  using Some = Pack<T, kCount>;
  using Floats = Pack<float, kCount>;
  __shared__ Rotation rotations[kMaxHeadDim / 2];
  const AttentionSpec& s = a.spec;
  const int row = blockIdx.x, head_dim = s.head_dim, pairs = a.rope_pairs;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int position = a.step.positions[row];
  const float growth = s.growth.at(position);
  for (int i = threadIdx.x; i < pairs; i += kRopeThreads) rotations[i] = rotation(a, position, i);
  let_next_kernel_start();
  wait_for_kernel_ahead();
  __syncthreads();

  T* q = static_cast<T*>(a.qkv) + int64_t{row} * (s.heads + 2 * s.kv_heads) * head_dim;
  const int page = pages_of(a, row)[position / kPageTokens];
  const int64_t slot = int64_t{position % kPageTokens} * head_dim;
  for (int head = warp; head < s.heads + s.kv_heads; head += kRopeThreads / 32) {
    T* from = q + int64_t{head} * head_dim;
    T* to = head < s.heads ? from : page_keys<T>(a, page, head - s.heads) + slot;
    const float* weight = head < s.heads ? a.q_norm : a.k_norm;
    float sum = 0;
    for (int i = lane * kCount; i < head_dim; i += 32 * kCount) {
      const Some some = *reinterpret_cast<const Some*>(from + i);
#pragma unroll
      for (const T& x : some.x) sum += to_float(x) * to_float(x);
    }
    const float factor = head < s.heads ? growth : 1;
    const float norm = rsqrtf(warp_sum(sum) / static_cast<float>(head_dim) + a.norm_eps) * factor;
    // The rotation keeps a head's length. So the factor of the norm may be computed before it in
    // both orders; the norm's weights are applied where the order says.
    const bool last = a.norm_after_rope;
    const auto normed = [&](int at, bool weighted) {
      const Some some = *reinterpret_cast<const Some*>(from + at);
      Floats result;
#pragma unroll
      for (int j = 0; j < kCount; ++j) {
        result.x[j] = to_float(some.x[j]) * norm * (weighted ? weight[at + j] : 1);
      }
      return result;
    };
    const auto store = [&](int at, const Floats& floats) {
      Some some;
#pragma unroll
      for (int j = 0; j < kCount; ++j) some.x[j] = from_float<T>(floats.x[j]);
      *reinterpret_cast<Some*>(to + at) = some;
    };
    const auto rotate = [&](float& x, float& y, const Rotation& r) {
      const float before = x;
      x = x * r.cos - y * r.sin;
      y = y * r.cos + before * r.sin;
    };
    for (int i = lane * kCount; i < pairs; i += 32 * kCount) {
      const int at_x = a.rope_interleaved ? 2 * i : i;
      const int at_y = a.rope_interleaved ? 2 * i + kCount : i + pairs;
      Floats x = normed(at_x, !last), y = normed(at_y, !last);
      if (kCount > 1 && a.rope_interleaved) {
#pragma unroll
        for (int j = 0; j + 1 < kCount; j += 2) {
          rotate(x.x[j], x.x[j + 1], rotations[i + j / 2]);
          rotate(y.x[j], y.x[j + 1], rotations[i + kCount / 2 + j / 2]);
        }
      } else {
#pragma unroll
        for (int j = 0; j < kCount; ++j) rotate(x.x[j], y.x[j], rotations[i + j]);
      }
      if (last) {
#pragma unroll
        for (int j = 0; j < kCount; ++j) {
          x.x[j] *= weight[at_x + j];
          y.x[j] *= weight[at_y + j];
        }
      }
      store(at_x, x);
      store(at_y, y);
    }
    for (int i = 2 * pairs + lane * kCount; i < head_dim; i += 32 * kCount) {
      store(i, normed(i, true));
    }
  }

  const T* v = q + int64_t{s.heads + s.kv_heads} * head_dim;
  const int packs = head_dim / kCount;
  for (int u = threadIdx.x; u < s.kv_heads * packs; u += kRopeThreads) {
    const int head = u / packs, i = u % packs;
    T* values = page_keys<T>(a, page, head) + slot + keys_to_values(s);
    reinterpret_cast<Some*>(values)[i] =
        reinterpret_cast<const Some*>(v)[int64_t{head} * packs + i];
  }
}

template <class T>
__global__ void __launch_bounds__(kWarps * 32) attend_plain(AttentionLaunch a) {
  __shared__ float sums[kWarps][kMaxHeadDim], maxima[kWarps], totals[kWarps];
  let_next_kernel_start();
  wait_for_kernel_ahead();
  const AttentionSpec& s = a.spec;
  const int row = blockIdx.x, head = blockIdx.y, head_dim = s.head_dim;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int kv_head = head / (s.heads / s.kv_heads);
  const int position = a.step.positions[row];
  const int32_t* pages = pages_of(a, row);
  const T* q_head =
      static_cast<const T*>(a.qkv) + (int64_t{row} * (s.heads + 2 * s.kv_heads) + head) * head_dim;

  float q[kLaneDims], out[kLaneDims];
#pragma unroll
  for (int i = 0; i < kLaneDims; ++i) {
    const int dim = i * 32 + lane;
    q[i] = dim < head_dim ? to_float(q_head[dim]) * s.scale : 0;
    out[i] = 0;
  }
  float maximum = -INFINITY, total = 0;
  for (int t = window_start(s, position) + warp; t <= position; t += kWarps) {
    const T* key =
        page_keys<T>(a, pages[t / kPageTokens], kv_head) + int64_t{t % kPageTokens} * head_dim;
    const T* value = key + keys_to_values(s);
    float score = 0;
#pragma unroll
    for (int i = 0; i < kLaneDims; ++i) {
      const int dim = i * 32 + lane;
      if (dim < head_dim) score += q[i] * to_float(key[dim]);
    }
    score = warp_sum(score);
    if (s.softcap != 0) score = s.softcap * tanhf(score / s.softcap);
    const float higher = fmaxf(maximum, score);
    const float keep = expf(maximum - higher), weight = expf(score - higher);
    maximum = higher;
    total = total * keep + weight;
#pragma unroll
    for (int i = 0; i < kLaneDims; ++i) {
      const int dim = i * 32 + lane;
      if (dim < head_dim) out[i] = out[i] * keep + weight * to_float(value[dim]);
    }
  }
#pragma unroll
  for (int i = 0; i < kLaneDims; ++i) sums[warp][i * 32 + lane] = out[i];
  maxima[warp] = maximum;
  totals[warp] = total;
  __syncthreads();

  for (int w = 0; w < kWarps; ++w) maximum = fmaxf(maximum, maxima[w]);
  float weights[kWarps];
  total = a.sinks ? expf(a.sinks[head] - maximum) : 0;
#pragma unroll
  for (int w = 0; w < kWarps; ++w) {
    weights[w] = expf(maxima[w] - maximum);
    total += totals[w] * weights[w];
  }
  for (int dim = threadIdx.x; dim < head_dim; dim += kWarps * 32) {
    float sum = 0;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) sum += sums[w][dim] * weights[w];
    static_cast<T*>(a.out)[(int64_t{row} * s.heads + head) * head_dim + dim] =
        from_float<T>(sum / total);
  }
}

}  // namespace

void launch_rope_append(const AttentionLaunch& a, Stream stream) {
  check_attention(a);
  if (a.rows == 0) return;
  const Grid grid = {dim3(a.rows), kRopeThreads, 0, a.dependent};
  dispatch(a.type, [&](auto type) {
    using T = decltype(type);
    const auto kernel = [&] {
      if (a.q_norm) {
        const bool by_two = a.rope_pairs % 2 == 0 && a.spec.head_dim % 2 == 0;
        return by_two ? norm_rope_append<T, 2> : norm_rope_append<T, 1>;
      }
      const bool by_four = a.rope_pairs % 4 == 0 && a.spec.head_dim % 4 == 0;
      return by_four ? rope_append<T, 4> : rope_append<T, 1>;
    };
    launch_kernel(kernel(), grid, stream, a);
  });
}

void launch_attention_plain(const AttentionLaunch& a, Stream stream) {
  check_attention(a);
  if (a.rows == 0) return;
  const Grid grid = {dim3(a.rows, a.spec.heads), kWarps * 32, 0, a.dependent};
  dispatch(a.type,
           [&](auto type) { launch_kernel(attend_plain<decltype(type)>, grid, stream, a); });
}

template <>
void launch_attention<kernel_id("attention_plain")>(const AttentionLaunch& launch, Stream stream) {
  launch_attention_plain(launch, stream);
}

}  // namespace skald::cuda
