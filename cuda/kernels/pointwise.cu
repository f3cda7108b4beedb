// Each reads its input once and writes its output once: bytes over bandwidth, except for one row,
// where the launch is the cost.
#include "cuda/kernels/pointwise.h"

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
  const T* row = static_cast<const T*>(a.weight) + a.tokens[blockIdx.x] * a.dim;
  for (int64_t i = threadIdx.x; i < a.dim; i += kThreads) {
    a.x[blockIdx.x * a.dim + i] = to_float(row[i]);
  }
}

template <class T>
__global__ void rms_norm(NormLaunch a) {
  __shared__ float shared[kThreads / 32];
  const float* x = a.x + blockIdx.x * a.dim;
  T* out = static_cast<T*>(a.out) + blockIdx.x * a.dim;
  float squares = 0;
  for (int64_t i = threadIdx.x; i < a.dim; i += kThreads) squares += x[i] * x[i];
  const float mean = block_sum<kThreads>(squares, shared) / static_cast<float>(a.dim);
  const float scale = rsqrtf(mean + a.eps);
  for (int64_t i = threadIdx.x; i < a.dim; i += kThreads) {
    out[i] = from_float<T>(x[i] * scale * a.weight[i]);
  }
}

template <class T>
__global__ void gate(GateLaunch a) {
  const int64_t i = int64_t{blockIdx.y} * kThreads + threadIdx.x, row = blockIdx.x;
  if (i >= a.cols) return;
  const T* pair = static_cast<const T*>(a.in) + (row * a.cols + i) * 2;
  float gate = to_float(pair[0]), up = to_float(pair[1]);
  if (a.bias) {
    gate += a.bias[2 * i];
    up += a.bias[2 * i + 1];
  }
  static_cast<T*>(a.out)[row * a.cols + i] = from_float<T>(activate(gate, a.activation) * up);
}

template <class T>
__global__ void add_bias(T* out, const float* bias, int64_t cols) {
  const int64_t i = int64_t{blockIdx.y} * kThreads + threadIdx.x;
  if (i >= cols) return;
  T& value = out[blockIdx.x * cols + i];
  value = from_float<T>(to_float(value) + bias[i]);
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
    launch_kernel(embed<decltype(type)>, {dim3(a.rows), kThreads}, stream, a);
  });
}

void launch_rms_norm(const NormLaunch& a, Stream stream) {
  dispatch(a.type, [&](auto type) {
    launch_kernel(rms_norm<decltype(type)>, {dim3(a.rows), kThreads}, stream, a);
  });
}

void launch_gate(const GateLaunch& a, Stream stream) {
  dispatch(a.type, [&](auto type) {
    const dim3 blocks(a.rows, blocks_for(a.cols));
    launch_kernel(gate<decltype(type)>, {blocks, kThreads}, stream, a);
  });
}

void launch_add_bias(DType type, void* out, const float* bias, int rows, int64_t cols,
                     Stream stream) {
  dispatch(type, [&](auto value) {
    using T = decltype(value);
    const dim3 blocks(rows, blocks_for(cols));
    launch_kernel(add_bias<T>, {blocks, kThreads}, stream, static_cast<T*>(out), bias, cols);
  });
}

void launch_gather(const float* from, const int32_t* rows, float* to, int count, int64_t cols,
                   Stream stream) {
  launch_kernel(gather, {dim3(count), kThreads}, stream, from, rows, to, cols);
}

void launch_read(const void* data, int64_t bytes, unsigned* sums, int blocks, Stream stream) {
  constexpr int kReadThreads = 512;
  launch_kernel(read_bytes, {dim3(blocks), kReadThreads}, stream, static_cast<const uint4*>(data),
                bytes / int64_t{sizeof(uint4)}, sums);
}

}  // namespace skald::cuda
