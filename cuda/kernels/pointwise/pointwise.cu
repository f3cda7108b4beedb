// The small kernels between products and attention. Each reads its input once and writes its output
// once. With many rows the time is bytes over bandwidth; with one row, that of a launch.
#include "cuda/kernels/pointwise/pointwise.h"

#include "cuda/kernels/device/launch.cuh"
#include "cuda/kernels/device/math.cuh"
#include "cuda/kernels/device/number.cuh"

namespace skald::cuda {
namespace {

constexpr int kThreads = 256;

unsigned blocks_for(int64_t count) {
  return static_cast<unsigned>((count + kThreads - 1) / kThreads);
}

template <class T>
__global__ void embed(EmbedLaunch a) {
  // The kernels behind this one read the step's table before their wait. The kernel ahead writes
  // that table with the tokens, so they may start only after this wait.
  wait_for_kernel_ahead();
  let_next_kernel_start();
  const T* row = static_cast<const T*>(a.weight) + a.tokens[blockIdx.x] * a.dim;
  const int64_t i = int64_t{blockIdx.y} * kThreads + threadIdx.x;
  if (i < a.dim) a.x[blockIdx.x * a.dim + i] = a.scale * to_float(row[i]);
}

// kCount: numbers in one access; divides dim. A thread keeps its first kKept accesses in registers,
// which is all of a row of up to 4096 numbers, so that x is read once.
template <class T, int kCount>
__global__ void rms_norm(RmsNormLaunch a) {
  constexpr int kKept = 4;
  __shared__ float shared[kThreads / 32];
  const int64_t count = a.dim / kCount;
  const auto* x = reinterpret_cast<const Pack<float, kCount>*>(a.x + blockIdx.x * a.dim);
  const auto* weight = reinterpret_cast<const Pack<float, kCount>*>(a.weight);
  auto* out = reinterpret_cast<Pack<T, kCount>*>(static_cast<T*>(a.out) + blockIdx.x * a.dim);
  Pack<float, kCount> kept[kKept];
  float squares = 0;
  const auto add = [&](const Pack<float, kCount>& some) {
#pragma unroll
    for (float value : some.x) squares += value * value;
  };
#pragma unroll
  for (int k = 0; k < kKept; ++k) {
    const int64_t i = threadIdx.x + k * kThreads;
    if (i < count) add(kept[k] = x[i]);
  }
  for (int64_t i = threadIdx.x + kKept * kThreads; i < count; i += kThreads) add(x[i]);
  const float mean = block_sum<kThreads>(squares, shared) / static_cast<float>(a.dim);
  const float scale = rsqrtf(mean + a.eps);
  const auto store = [&](int64_t i, const Pack<float, kCount>& some) {
    const Pack<float, kCount> factors = weight[i];
    Pack<T, kCount> normed;
#pragma unroll
    for (int j = 0; j < kCount; ++j) normed.x[j] = from_float<T>(some.x[j] * scale * factors.x[j]);
    out[i] = normed;
  };
#pragma unroll
  for (int k = 0; k < kKept; ++k) {
    const int64_t i = threadIdx.x + k * kThreads;
    if (i < count) store(i, kept[k]);
  }
  for (int64_t i = threadIdx.x + kKept * kThreads; i < count; i += kThreads) store(i, x[i]);
}

// The activation function, as precise as T.
template <class T>
__device__ inline float activate_for(float x, Activation activation) {
  return sizeof(T) == 2 ? activate_briefly(x, activation) : activate(x, activation);
}
// gated(), as precise as T. kClamped: the activation is ClampedSwiglu.
template <class T, bool kClamped>
__device__ inline float gated_for(float gate, float up, Activation activation) {
  return kClamped ? gated(gate, up, Activation::ClampedSwiglu)
                  : activate_for<T>(gate, activation) * up;
}

constexpr int kGateAccesses = 2;  // accesses of a thread in flight

// The number of blocks for a row of `accesses`. Each block belongs to one row, so that no thread
// divides by cols.
__host__ __device__ inline unsigned gate_blocks(int64_t accesses) {
  constexpr int kEach = kGateAccesses * kThreads;
  return static_cast<unsigned>((accesses + kEach - 1) / kEach);
}

// kCount: results of one access; divides cols.
template <class T, int kCount, bool kClamped>
__global__ void gate(GateLaunch a) {
  using Some = Pack<T, kCount>;
  using Pairs = Pack<T, 2 * kCount>;
  const int64_t each = a.cols / kCount;
  const unsigned blocks = gate_blocks(each);
  const int64_t row = blockIdx.x / blocks;
  const int64_t first = blockIdx.x % blocks * (kGateAccesses * kThreads) + threadIdx.x;
  const auto load = [&](int64_t i) {
    if (a.alternate) return static_cast<const Pairs*>(a.in)[row * each + i];
    const Some* in = static_cast<const Some*>(a.in) + row * 2 * each + i;
    const Some gates = in[0], ups = in[each];
    Pairs pairs;
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      pairs.x[2 * j] = gates.x[j];
      pairs.x[2 * j + 1] = ups.x[j];
    }
    return pairs;
  };
  // The bias of gate number j is at step * j; the bias of up lies `apart` after it.
  const int64_t step = a.alternate ? 2 : 1, apart = a.alternate ? 1 : a.cols;
  const auto store = [&](int64_t i, const Pairs& pairs) {
    Some result;
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      float gate = to_float(pairs.x[2 * j]), up = to_float(pairs.x[2 * j + 1]);
      if (a.bias) {
        gate += a.bias[(i * kCount + j) * step];
        up += a.bias[(i * kCount + j) * step + apart];
      }
      result.x[j] = from_float<T>(gated_for<T, kClamped>(gate, up, a.activation));
    }
    static_cast<Some*>(a.out)[row * each + i] = result;
  };
  Pairs pairs[kGateAccesses];
#pragma unroll
  for (int k = 0; k < kGateAccesses; ++k) {
    const int64_t i = first + k * kThreads;
    if (i < each) pairs[k] = load(i);
  }
#pragma unroll
  for (int k = 0; k < kGateAccesses; ++k) {
    const int64_t i = first + k * kThreads;
    if (i < each) store(i, pairs[k]);
  }
}

template <class T>
__global__ void add_bias(BiasLaunch a) {
  const int64_t i = int64_t{blockIdx.y} * kThreads + threadIdx.x;
  if (i >= a.cols) return;
  T& value = static_cast<T*>(a.out)[blockIdx.x * a.cols + i];
  const float sum = to_float(value) + (a.bias ? a.scale * a.bias[i] : 0);
  value = from_float<T>(a.activates ? activate_for<T>(sum, a.activation) : sum);
}

// kCount: numbers of a thread; divides count.
template <class T, int kCount>
__global__ void to_type(const float* x, T* to, int64_t count) {
  const int64_t at = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (at >= count / kCount) return;
  const auto some = reinterpret_cast<const Pack<float, kCount>*>(x)[at];
  Pack<T, kCount> result;
#pragma unroll
  for (int j = 0; j < kCount; ++j) result.x[j] = from_float<T>(some.x[j]);
  reinterpret_cast<Pack<T, kCount>*>(to)[at] = result;
}

template <int kCount>
__global__ void cap(CapLaunch a) {
  let_next_kernel_start();
  wait_for_kernel_ahead();
  const int64_t at = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (at >= a.count / kCount) return;
  auto some = reinterpret_cast<Pack<float, kCount>*>(a.x)[at];
#pragma unroll
  for (float& x : some.x) {
    x *= a.scale;
    if (a.softcap != 0) x = a.softcap * tanhf(x / a.softcap);
  }
  reinterpret_cast<Pack<float, kCount>*>(a.x)[at] = some;
}

__global__ void gather(const float* from, const int32_t* rows, float* to, int64_t cols) {
  for (int64_t i = threadIdx.x; i < cols; i += kThreads) {
    to[blockIdx.x * cols + i] = from[rows[blockIdx.x] * cols + i];
  }
}

__global__ void read_bytes(const uint4* data, int64_t words, unsigned* sums) {
  constexpr int kInFlight = 8;
  unsigned sum = 0;
  const int64_t stride = int64_t{gridDim.x} * blockDim.x * kInFlight;
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t at = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; at < words; at += stride) {
    uint4 values[kInFlight];
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      const int64_t word = at + i * step;
      values[i] = word < words ? __ldcs(data + word) : make_uint4(0, 0, 0, 0);
    }
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      sum += values[i].x ^ values[i].y ^ values[i].z ^ values[i].w;
    }
  }
  atomicAdd(sums + blockIdx.x, sum);
}

}  // namespace

void launch_embed(const EmbedLaunch& a, Stream stream) {
  dispatch(a.type, [&](auto type) {
    launch_kernel(embed<decltype(type)>,
                  {dim3(a.rows, blocks_for(a.dim)), kThreads, 0, a.dependent}, stream, a);
  });
}

void launch_rms_norm(const RmsNormLaunch& a, Stream stream) {
  dispatch(a.type, [&](auto type) {
    using T = decltype(type);
    const auto kernel = a.dim % 4 == 0 ? rms_norm<T, 4> : rms_norm<T, 1>;
    launch_kernel(kernel, {dim3(a.rows), kThreads}, stream, a);
  });
}

void launch_gate(const GateLaunch& a, Stream stream) {
  dispatch(a.type, [&](auto type) {
    using T = decltype(type);
    constexpr int kMost = 8 / sizeof(T);  // twice 8 bytes in, 8 bytes out
    const bool clamped = a.activation == Activation::ClampedSwiglu;
    const bool many = a.cols % kMost == 0 && !clamped;
    const auto kernel = clamped ? gate<T, 1, true>
                        : many  ? gate<T, kMost, false>
                                : gate<T, 1, false>;
    const dim3 blocks(a.rows * gate_blocks(a.cols / (many ? kMost : 1)));
    launch_kernel(kernel, {blocks, kThreads}, stream, a);
  });
}

void launch_add_bias(const BiasLaunch& a, Stream stream) {
  dispatch(a.type, [&](auto type) {
    const dim3 blocks(a.rows, blocks_for(a.cols));
    launch_kernel(add_bias<decltype(type)>, {blocks, kThreads}, stream, a);
  });
}

void launch_to_type(DType type, const float* x, void* to, int64_t count, Stream stream) {
  dispatch(type, [&](auto value) {
    using T = decltype(value);
    const bool by_four = count % 4 == 0;
    const auto kernel = by_four ? to_type<T, 4> : to_type<T, 1>;
    launch_kernel(kernel, {dim3(blocks_for(count / (by_four ? 4 : 1))), kThreads}, stream, x,
                  static_cast<T*>(to), count);
  });
}

void launch_cap(const CapLaunch& a, Stream stream) {
  const bool by_four = a.count % 4 == 0;
  const dim3 blocks(blocks_for(a.count / (by_four ? 4 : 1)));
  launch_kernel(by_four ? cap<4> : cap<1>, {blocks, kThreads, 0, a.dependent}, stream, a);
}

void launch_gather(const GatherLaunch& a, Stream stream) {
  launch_kernel(gather, {dim3(a.count), kThreads}, stream, a.from, a.rows, a.to, a.cols);
}

void launch_read(const void* data, int64_t bytes, unsigned* sums, int blocks, Stream stream) {
  constexpr int kReadThreads = 512;
  launch_kernel(read_bytes, {dim3(blocks), kReadThreads}, stream, static_cast<const uint4*>(data),
                bytes / int64_t{sizeof(uint4)}, sums);
}

}  // namespace skald::cuda
