// send_rows, receive_rows and receive_sum. The rows of a few sequences have at most some hundred
// KB, so one block is enough, and it needs no other block to know when all is copied. The floor is
// the link's latency, 1 to 2 us each way.
#include "cuda/kernels/device/launch.cuh"
#include "cuda/kernels/host_rows/turn.cuh"

namespace skald::cuda {
namespace {

constexpr int kThreads = 1024;
constexpr int kInFlight = 4;  // loads of a thread

template <class Word>
__device__ void copy_words(const HostCopy& copy) {
  const int64_t words = copy.bytes / int64_t{sizeof(Word)};
  for (int64_t base = threadIdx.x; base < words; base += kThreads * kInFlight) {
    Word values[kInFlight];
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      const int64_t at = base + i * kThreads;
      if (at < words) values[i] = __ldcv(static_cast<const Word*>(copy.from) + at);
    }
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      const int64_t at = base + i * kThreads;
      if (at < words) static_cast<Word*>(copy.to)[at] = values[i];
    }
  }
}

__device__ void copy_all(const SendRowsLaunch& a) {
  for (int i = 0; i < a.count; ++i) {
    const HostCopy& copy = a.copies[i];
    const auto place = reinterpret_cast<uintptr_t>(copy.from) |
                       reinterpret_cast<uintptr_t>(copy.to) | static_cast<uintptr_t>(copy.bytes);
    if (place % sizeof(uint4) == 0) {
      copy_words<uint4>(copy);
    } else {
      copy_words<uint16_t>(copy);
    }
  }
}

__global__ void __launch_bounds__(kThreads) send_rows(__grid_constant__ const SendRowsLaunch a) {
  wait_for_kernel_ahead();
  copy_all(a);
  send_request(a.turn, Request::Compute);
}

__global__ void __launch_bounds__(kThreads)
    receive_rows(__grid_constant__ const ReceiveRowsLaunch a) {
  wait_for_kernel_ahead();
  wait_for_answer(a.turn);
  copy_all(a);
}

__global__ void __launch_bounds__(kThreads) receive_sum(ReceiveSumLaunch a) {
  wait_for_kernel_ahead();
  if (*a.asked == 0) return;
  wait_for_answer(a.turn);
  for (int64_t base = threadIdx.x; base < a.count; base += kThreads * kInFlight) {
    float values[kInFlight];
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      const int64_t at = base + i * kThreads;
      if (at < a.count) values[i] = __ldcv(a.from + at);
    }
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      const int64_t at = base + i * kThreads;
      if (at < a.count) a.x[at] = fmaf(a.scale, values[i], a.x[at]);
    }
  }
}

}  // namespace

void launch_send_rows(const SendRowsLaunch& a, Stream stream) {
  launch_kernel(send_rows, {dim3(1), kThreads}, stream, a);
}

void launch_receive_rows(const ReceiveRowsLaunch& a, Stream stream) {
  launch_kernel(receive_rows, {dim3(1), kThreads}, stream, a);
}

void launch_receive_sum(const ReceiveSumLaunch& a, Stream stream) {
  launch_kernel(receive_sum, {dim3(1), kThreads}, stream, a);
}

}  // namespace skald::cuda
