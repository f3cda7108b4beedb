// Norms of rows besides rms_norm, for some model families. post_norm norms a product before the
// product is added to the residual stream; sum_of_norms does that with the sum of two; qk_norm
// norms a row's queries and its keys; norm is for Layer norms and for norms that several ops read.
// One block per row, or one for its queries and one for its keys. With many rows the time is bytes
// over bandwidth; with few rows, the chain of wait, load, sum and store. A row's numbers stay in
// registers if they fit, so that each is read once.
#include "cuda/kernels/device/launch.cuh"
#include "cuda/kernels/device/math.cuh"
#include "cuda/kernels/device/number.cuh"
#include "cuda/kernels/pointwise/pointwise.h"

namespace skald::cuda {
namespace {

constexpr int kThreads = 512;
constexpr int kKept = 4;  // accesses of a thread: all of a row of up to 8192 numbers

// Loads that bypass the L1 cache: it may hold numbers from before the kernel ahead ran.
template <int kCount, class T>
__device__ Pack<float, kCount> load(const T* row, int64_t at) {
  Pack<T, kCount> some;
  if constexpr (kCount == 1) {
    some.x[0] = __ldcg(row + at);
  } else if constexpr (sizeof some == sizeof(uint4)) {
    *reinterpret_cast<uint4*>(&some) = __ldcg(reinterpret_cast<const uint4*>(row) + at);
  } else {
    static_assert(sizeof some == sizeof(uint2));
    *reinterpret_cast<uint2*>(&some) = __ldcg(reinterpret_cast<const uint2*>(row) + at);
  }
  Pack<float, kCount> result;
#pragma unroll
  for (int j = 0; j < kCount; ++j) result.x[j] = to_float(some.x[j]);
  return result;
}

template <int kCount>
__device__ float squares(const Pack<float, kCount>& some) {
  float sum = 0;
#pragma unroll
  for (float x : some.x) sum += x * x;
  return sum;
}

// kCount: numbers in one access; divides dim.
template <class T, int kCount>
__global__ void __launch_bounds__(kThreads) post_norm(PostNormLaunch a) {
  using Some = Pack<float, kCount>;
  __shared__ float shared[kThreads / 32];
  const int64_t count = a.dim / kCount, row = blockIdx.x * a.dim;
  const float* in = a.in + row;
  float* x = a.x + row;
  T* copy = a.copy ? static_cast<T*>(a.copy) + row : nullptr;
  Some weight[kKept], kept[kKept], old[kKept];
  let_next_kernel_start();
#pragma unroll
  for (int k = 0; k < kKept; ++k) {
    const int64_t i = threadIdx.x + k * kThreads;
    if (i < count) weight[k] = reinterpret_cast<const Some*>(a.weight)[i];
  }
  wait_for_kernel_ahead();
  float sum = 0;
#pragma unroll
  for (int k = 0; k < kKept; ++k) {
    const int64_t i = threadIdx.x + k * kThreads;
    if (i < count) kept[k] = load<kCount>(in, i);
  }
#pragma unroll
  for (int k = 0; k < kKept; ++k) {
    const int64_t i = threadIdx.x + k * kThreads;
    if (i < count) old[k] = load<kCount>(static_cast<const float*>(x), i);
  }
#pragma unroll
  for (int k = 0; k < kKept; ++k) {
    if (threadIdx.x + k * kThreads < count) sum += squares(kept[k]);
  }
  for (int64_t i = threadIdx.x + kKept * kThreads; i < count; i += kThreads) {
    sum += squares(load<kCount>(in, i));
  }
  const float mean = block_sum<kThreads>(sum, shared) / static_cast<float>(a.dim);
  const float scale = rsqrtf(mean + a.eps);
  const auto store = [&](int64_t i, const Some& some, const Some& factors, Some result) {
    Pack<T, kCount> rounded;
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      result.x[j] = a.keep * result.x[j] + a.scale * (some.x[j] * scale * factors.x[j]);
      rounded.x[j] = from_float<T>(result.x[j]);
    }
    reinterpret_cast<Some*>(x)[i] = result;
    if (copy) reinterpret_cast<Pack<T, kCount>*>(copy)[i] = rounded;
  };
#pragma unroll
  for (int k = 0; k < kKept; ++k) {
    const int64_t i = threadIdx.x + k * kThreads;
    if (i < count) store(i, kept[k], weight[k], old[k]);
  }
  for (int64_t i = threadIdx.x + kKept * kThreads; i < count; i += kThreads) {
    store(i, load<kCount>(in, i), reinterpret_cast<const Some*>(a.weight)[i],
          load<kCount>(static_cast<const float*>(x), i));
  }
}

// kCount: numbers in one access; divides dim.
template <int kCount>
__global__ void __launch_bounds__(kThreads) sum_of_norms(SumOfNormsLaunch l) {
  using Some = Pack<float, kCount>;
  __shared__ float shared[3][kThreads / 32];
  const int64_t count = l.dim / kCount, row = blockIdx.x * l.dim;
  const float *a = l.a + row, *b = l.b + row;
  float* x = l.x + row;
  const auto weight = [](const float* from, int64_t i) {
    return reinterpret_cast<const Some*>(from)[i];
  };
  let_next_kernel_start();
  wait_for_kernel_ahead();
  Some kept_a[kKept], kept_b[kKept];
  float a_sum = 0, b_sum = 0;
#pragma unroll
  for (int k = 0; k < kKept; ++k) {
    const int64_t i = threadIdx.x + k * kThreads;
    if (i < count) kept_a[k] = load<kCount>(a, i), kept_b[k] = load<kCount>(b, i);
  }
#pragma unroll
  for (int k = 0; k < kKept; ++k) {
    if (threadIdx.x + k * kThreads < count) {
      a_sum += squares(kept_a[k]);
      b_sum += squares(kept_b[k]);
    }
  }
  for (int64_t i = threadIdx.x + kKept * kThreads; i < count; i += kThreads) {
    a_sum += squares(load<kCount>(a, i));
    b_sum += squares(load<kCount>(b, i));
  }
  const float dim = static_cast<float>(l.dim);
  const float a_scale = rsqrtf(block_sum<kThreads>(a_sum, shared[0]) / dim + l.eps);
  const float b_scale = rsqrtf(block_sum<kThreads>(b_sum, shared[1]) / dim + l.eps);
  const auto add = [&](int64_t i, const Some& from_a, const Some& from_b) {
    const Some by_a = weight(l.a_weight, i), by_b = weight(l.b_weight, i);
    Some result;
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      result.x[j] = from_a.x[j] * a_scale * by_a.x[j] + from_b.x[j] * b_scale * by_b.x[j];
    }
    return result;
  };
  float sum = 0;
#pragma unroll
  for (int k = 0; k < kKept; ++k) {
    const int64_t i = threadIdx.x + k * kThreads;
    if (i < count) {
      kept_a[k] = add(i, kept_a[k], kept_b[k]);
      sum += squares(kept_a[k]);
    }
  }
  for (int64_t i = threadIdx.x + kKept * kThreads; i < count; i += kThreads) {
    sum += squares(add(i, load<kCount>(a, i), load<kCount>(b, i)));
  }
  const float scale = rsqrtf(block_sum<kThreads>(sum, shared[2]) / dim + l.eps) * l.scale;
  const auto store = [&](int64_t i, const Some& some) {
    const Some factors = weight(l.weight, i);
    Some result = load<kCount>(static_cast<const float*>(x), i);
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      result.x[j] = l.keep * result.x[j] + some.x[j] * scale * factors.x[j];
    }
    reinterpret_cast<Some*>(x)[i] = result;
  };
#pragma unroll
  for (int k = 0; k < kKept; ++k) {
    const int64_t i = threadIdx.x + k * kThreads;
    if (i < count) store(i, kept_a[k]);
  }
  for (int64_t i = threadIdx.x + kKept * kThreads; i < count; i += kThreads) {
    store(i, add(i, load<kCount>(a, i), load<kCount>(b, i)));
  }
}

// kCount: numbers in one access; divides dim. The variance is the sum of squared distances from the
// mean. The mean of squares minus the square of the mean would cancel.
template <class T, int kCount>
__global__ void __launch_bounds__(kThreads) norm(NormLaunch a) {
  using Some = Pack<float, kCount>;
  __shared__ float sums[2][kThreads / 32];
  const int64_t count = a.dim / kCount;
  const float* x = a.x + blockIdx.x * a.dim;
  const auto* weight = reinterpret_cast<const Some*>(a.weight);
  const auto* bias = reinterpret_cast<const Some*>(a.bias);
  auto* out = reinterpret_cast<Pack<T, kCount>*>(static_cast<T*>(a.out) + blockIdx.x * a.dim);
  let_next_kernel_start();
  wait_for_kernel_ahead();
  Some kept[kKept];
#pragma unroll
  for (int k = 0; k < kKept; ++k) {
    const int64_t i = threadIdx.x + k * kThreads;
    if (i < count) kept[k] = load<kCount>(x, i);
  }
  const auto for_all = [&](const auto& fn) {
#pragma unroll
    for (int k = 0; k < kKept; ++k) {
      const int64_t i = threadIdx.x + k * kThreads;
      if (i < count) fn(i, kept[k]);
    }
    for (int64_t i = threadIdx.x + kKept * kThreads; i < count; i += kThreads) {
      fn(i, load<kCount>(x, i));
    }
  };
  const float dim = static_cast<float>(a.dim);
  float center = 0;
  if (a.kind == NormKind::Layer) {
    float sum = 0;
    for_all([&](int64_t, const Some& some) {
#pragma unroll
      for (float value : some.x) sum += value;
    });
    center = block_sum<kThreads>(sum, sums[0]) / dim;
  }
  float sum = 0;
  for_all([&](int64_t, const Some& some) {
#pragma unroll
    for (float value : some.x) sum += (value - center) * (value - center);
  });
  const float scale = rsqrtf(block_sum<kThreads>(sum, sums[1]) / dim + a.eps);
  for_all([&](int64_t i, const Some& some) {
    const Some factors = weight[i], added = bias ? bias[i] : Some{};
    Pack<T, kCount> normed;
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      normed.x[j] = from_float<T>((some.x[j] - center) * scale * factors.x[j] + added.x[j]);
    }
    out[i] = normed;
  });
}

// Blocks (row, 0) norm queries, blocks (row, 1) keys. kCount divides all numbers of columns.
template <class T, int kCount>
__global__ void __launch_bounds__(kThreads) qk_norm(QkNormLaunch a) {
  using Some = Pack<float, kCount>;
  __shared__ float shared[kThreads / 32];
  const bool keys = blockIdx.y == 1;
  const int64_t cols = keys ? a.k_cols : a.q_cols, count = cols / kCount;
  const auto* weight = reinterpret_cast<const Some*>(keys ? a.k_weight : a.q_weight);
  T* row = static_cast<T*>(a.qkv) + blockIdx.x * a.row_numbers + (keys ? a.q_cols : 0);
  let_next_kernel_start();
  wait_for_kernel_ahead();
  Some kept[kKept];
  float sum = 0;
#pragma unroll
  for (int k = 0; k < kKept; ++k) {
    const int64_t i = threadIdx.x + k * kThreads;
    if (i < count) kept[k] = load<kCount>(static_cast<const T*>(row), i);
  }
#pragma unroll
  for (int k = 0; k < kKept; ++k) {
    if (threadIdx.x + k * kThreads < count) sum += squares(kept[k]);
  }
  for (int64_t i = threadIdx.x + kKept * kThreads; i < count; i += kThreads) {
    sum += squares(load<kCount>(static_cast<const T*>(row), i));
  }
  const float mean = block_sum<kThreads>(sum, shared) / static_cast<float>(cols);
  const float scale = rsqrtf(mean + a.eps);
  const auto store = [&](int64_t i, const Some& some) {
    const Some factors = weight[i];
    Pack<T, kCount> normed;
#pragma unroll
    for (int j = 0; j < kCount; ++j) normed.x[j] = from_float<T>(some.x[j] * scale * factors.x[j]);
    reinterpret_cast<Pack<T, kCount>*>(row)[i] = normed;
  };
#pragma unroll
  for (int k = 0; k < kKept; ++k) {
    const int64_t i = threadIdx.x + k * kThreads;
    if (i < count) store(i, kept[k]);
  }
  for (int64_t i = threadIdx.x + kKept * kThreads; i < count; i += kThreads) {
    store(i, load<kCount>(static_cast<const T*>(row), i));
  }
}

}  // namespace

void launch_post_norm(const PostNormLaunch& a, Stream stream) {
  dispatch(a.type, [&](auto type) {
    using T = decltype(type);
    const auto kernel = a.dim % 4 == 0 ? post_norm<T, 4> : post_norm<T, 1>;
    launch_kernel(kernel, {dim3(a.rows), kThreads, 0, a.dependent}, stream, a);
  });
}

void launch_sum_of_norms(const SumOfNormsLaunch& a, Stream stream) {
  const auto kernel = a.dim % 4 == 0 ? sum_of_norms<4> : sum_of_norms<1>;
  launch_kernel(kernel, {dim3(a.rows), kThreads, 0, a.dependent}, stream, a);
}

void launch_norm(const NormLaunch& a, Stream stream) {
  dispatch(a.type, [&](auto type) {
    using T = decltype(type);
    const auto kernel = a.dim % 4 == 0 ? norm<T, 4> : norm<T, 1>;
    launch_kernel(kernel, {dim3(a.rows), kThreads, 0, a.dependent}, stream, a);
  });
}

void launch_qk_norm(const QkNormLaunch& a, Stream stream) {
  dispatch(a.type, [&](auto type) {
    using T = decltype(type);
    const bool by_four = a.q_cols % 4 == 0 && a.k_cols % 4 == 0 && a.row_numbers % 4 == 0;
    const auto kernel = by_four ? qk_norm<T, 4> : qk_norm<T, 1>;
    launch_kernel(kernel, {dim3(a.rows, a.k_cols > 0 ? 2 : 1), kThreads, 0, a.dependent}, stream,
                  a);
  });
}

}  // namespace skald::cuda
