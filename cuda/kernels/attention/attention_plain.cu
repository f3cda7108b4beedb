// rope_append: rotates queries and keys, and appends keys and values to the cache. One block per
// row. It reads qkv once and writes q, k and v once; its time is bytes over bandwidth.
//
// norm_rope_append: the same, with a norm of each head first. One warp per head; it reads the head
// twice.
//
// attend_plain: attention for float32, old GPUs and large heads, without matrix products. One block
// for each row and query head; its warps take tokens in turn, and each lane every 32nd access of a
// head. It reads the cache once for each query head: from the L2 cache, mostly.
#include "cuda/kernels/attention/attention.h"
#include "cuda/kernels/attention/kv_page.cuh"
#include "cuda/kernels/device/all_shared.cuh"
#include "cuda/kernels/device/launch.cuh"
#include "cuda/kernels/device/math.cuh"

namespace skald::cuda {
namespace {

constexpr int kRopeThreads = 256;

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

  T* q = static_cast<T*>(a.qkv) + int64_t{row} * row_heads(a) * head_dim;
  T* k = q + int64_t{s.heads} * head_dim;
  const T* v = q + int64_t{first_value_head(a)} * head_dim;
  const int page = pages_of(a, row)[position / kPageTokens];
  const int64_t slot = int64_t{position % kPageTokens} * head_dim;

  const int units = pairs / kCount, rotating = s.heads + (a.appends ? s.kv_heads : 0);
  for (int u = threadIdx.x; u < rotating * units; u += kRopeThreads) {
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

  const int packs = head_dim / kCount, rotated = 2 * units;
  if (growth != 1 && rotated < packs) {
    for (int u = threadIdx.x; u < s.heads * packs; u += kRopeThreads) {
      if (u % packs < rotated) continue;
      Some& some = reinterpret_cast<Some*>(q)[u];
#pragma unroll
      for (T& x : some.x) x = from_float<T>(to_float(x) * growth);
    }
  }
  if (!a.appends) return;
  // Copies what does not rotate: the values, and the other dimensions of the keys.
  for (int u = threadIdx.x; u < s.kv_heads * packs; u += kRopeThreads) {
    const int head = u / packs, i = u % packs;
    T* keys = page_keys<T>(a, page, head) + slot;
    const int64_t from = int64_t{head} * packs + i;
    if (i >= rotated) reinterpret_cast<Some*>(keys)[i] = reinterpret_cast<const Some*>(k)[from];
    if (s.keys_serve) continue;
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

  T* q = static_cast<T*>(a.qkv) + int64_t{row} * row_heads(a) * head_dim;
  const int page = pages_of(a, row)[position / kPageTokens];
  const int64_t slot = int64_t{position % kPageTokens} * head_dim;
  const auto norm_of = [&](const T* from) {
    float sum = 0;
    for (int i = lane * kCount; i < head_dim; i += 32 * kCount) {
      const Some some = *reinterpret_cast<const Some*>(from + i);
#pragma unroll
      for (const T& x : some.x) sum += to_float(x) * to_float(x);
    }
    return rsqrtf(warp_sum(sum) / static_cast<float>(head_dim) + a.norm_eps);
  };
  const int normed_heads = s.heads + (a.appends ? s.kv_heads : 0);
  for (int head = warp; head < normed_heads; head += kRopeThreads / 32) {
    T* from = q + int64_t{head} * head_dim;
    T* to = head < s.heads ? from : page_keys<T>(a, page, head - s.heads) + slot;
    const float* weight = head < s.heads ? a.q_norm : a.k_norm;
    const float norm = norm_of(from) * (head < s.heads ? growth : 1);
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

  if (!a.appends) return;
  const T* v = q + int64_t{first_value_head(a)} * head_dim;
  const auto values_of = [&](int head) {
    return page_keys<T>(a, page, head) + slot + keys_to_values(s);
  };
  if (a.v_norm) {
    for (int head = warp; head < s.kv_heads; head += kRopeThreads / 32) {
      const T* from = v + int64_t{head} * head_dim;
      const float norm = norm_of(from);
      for (int i = lane * kCount; i < head_dim; i += 32 * kCount) {
        Some some = *reinterpret_cast<const Some*>(from + i);
#pragma unroll
        for (T& x : some.x) x = from_float<T>(to_float(x) * norm);
        *reinterpret_cast<Some*>(values_of(head) + i) = some;
      }
    }
    return;
  }
  const int packs = head_dim / kCount;
  for (int u = threadIdx.x; u < s.kv_heads * packs; u += kRopeThreads) {
    const int head = u / packs, i = u % packs;
    reinterpret_cast<Some*>(values_of(head))[i] =
        reinterpret_cast<const Some*>(v)[int64_t{head} * packs + i];
  }
}

// kVec: numbers in one access; divides head_dim. kDim: at least head_dim. kTogether: tokens that a
// warp takes in a turn, so that more loads are under way.
template <class T, int kDim, int kVec, int kWarps, int kTogether>
__global__ void __launch_bounds__(kWarps * 32) attend_plain(AttentionLaunch a) {
  using Some = Pack<T, kVec>;
  constexpr int kPacks = kDim / 32 / kVec;  // of a lane
  __shared__ float sums[kWarps][kDim], maxima[kWarps], totals[kWarps];
  let_next_kernel_start();
  wait_for_kernel_ahead();
  const AttentionSpec& s = a.spec;
  const int row = blockIdx.x, head = blockIdx.y, head_dim = s.head_dim;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int kv_head = head / (s.heads / s.kv_heads);
  const int position = a.step.positions[row];
  const int32_t* pages = pages_of(a, row);
  const T* q_head = static_cast<const T*>(a.qkv) + (int64_t{row} * row_heads(a) + head) * head_dim;
  const auto load = [&](const T* from, Some(&to)[kPacks]) {
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      const int dim = (i * 32 + lane) * kVec;
      to[i] = dim < head_dim ? *reinterpret_cast<const Some*>(from + dim) : Some{};
    }
  };

  Some some[kPacks];
  load(q_head, some);
  float q[kPacks][kVec], out[kPacks][kVec];
#pragma unroll
  for (int i = 0; i < kPacks; ++i) {
#pragma unroll
    for (int j = 0; j < kVec; ++j) {
      q[i][j] = to_float(some[i].x[j]) * s.scale;
      out[i][j] = 0;
    }
  }
  float maximum = -INFINITY, total = 0;
  for (int t = window_start(s, position) + warp; t <= position; t += kTogether * kWarps) {
    Some keys[kTogether][kPacks], values[kTogether][kPacks];
#pragma unroll
    for (int n = 0; n < kTogether; ++n) {
      const int token = min(t + n * kWarps, position);
      const T* key = page_keys<T>(a, pages[token / kPageTokens], kv_head) +
                     int64_t{token % kPageTokens} * head_dim;
      load(key, keys[n]);
      if (!s.keys_serve) load(key + keys_to_values(s), values[n]);
    }
    float scores[kTogether], higher = maximum;
#pragma unroll
    for (int n = 0; n < kTogether; ++n) {
      float score = 0;
#pragma unroll
      for (int i = 0; i < kPacks; ++i) {
#pragma unroll
        for (int j = 0; j < kVec; ++j) score += q[i][j] * to_float(keys[n][i].x[j]);
      }
      score = warp_sum(score);
      if (s.softcap != 0) score = s.softcap * tanhf(score / s.softcap);
      scores[n] = t + n * kWarps <= position ? score : -INFINITY;
      higher = fmaxf(higher, scores[n]);
    }
    if (s.keys_serve) {
#pragma unroll
      for (int n = 0; n < kTogether; ++n) {
#pragma unroll
        for (int i = 0; i < kPacks; ++i) values[n][i] = keys[n][i];
      }
    }
    const float keep = expf(maximum - higher);
    maximum = higher;
    total *= keep;
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
#pragma unroll
      for (int j = 0; j < kVec; ++j) out[i][j] *= keep;
    }
#pragma unroll
    for (int n = 0; n < kTogether; ++n) {
      const float weight = expf(scores[n] - maximum);
      total += weight;
#pragma unroll
      for (int i = 0; i < kPacks; ++i) {
#pragma unroll
        for (int j = 0; j < kVec; ++j) out[i][j] += weight * to_float(values[n][i].x[j]);
      }
    }
  }
#pragma unroll
  for (int i = 0; i < kPacks; ++i) {
#pragma unroll
    for (int j = 0; j < kVec; ++j) sums[warp][(i * 32 + lane) * kVec + j] = out[i][j];
  }
  if (lane == 0) {
    maxima[warp] = maximum;
    totals[warp] = total;
  }
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
  check(!a.v_norm || a.q_norm, "values are normed where queries are");
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
    ask_for_all_shared(kernel());
    launch_kernel(kernel(), grid, stream, a);
  });
}

void launch_attention_plain(const AttentionLaunch& a, Stream stream) {
  check_attention(a);
  if (a.rows == 0) return;
  const auto launch = [&](auto* kernel, int warps) {
    launch_kernel(kernel, {dim3(a.rows, a.spec.heads), warps * 32, 0, a.dependent}, stream, a);
  };
  constexpr int kFew = 4, kMore = 8, kMany = 16;  // warps
  constexpr int kLarge = 512, kLargest = 768;     // dimensions
  static_assert(kMaxHeadDim <= kLargest);
  dispatch(a.type, [&](auto type) {
    using T = decltype(type);
    constexpr int kVec = 16 / sizeof(T);
    if (a.spec.head_dim <= 256) {
      launch(attend_plain<T, 256, 1, kFew, 1>, kFew);
    } else if (a.spec.head_dim % kVec == 0) {
      if (a.spec.head_dim > kLarge) return launch(attend_plain<T, kLargest, kVec, kMore, 2>, kMore);
      launch(attend_plain<T, kLarge, kVec, kMany, 2>, kMany);
    } else {
      if (a.spec.head_dim > kLarge) return launch(attend_plain<T, kLargest, 1, kMore, 1>, kMore);
      launch(attend_plain<T, kLarge, 1, kMany, 1>, kMany);
    }
  });
}

template <>
void launch_attention<kernel_id("attention_plain")>(const AttentionLaunch& launch, Stream stream) {
  launch_attention_plain(launch, stream);
}

}  // namespace skald::cuda
