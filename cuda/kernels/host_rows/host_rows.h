// Rows that go to the CPU and whose results come back (cuda/plan/host_op.h). All that both sides
// touch lies in page-locked memory. The GPU sends a request and later waits for the answer; the
// host waits for the request. So neither needs a call of CUDA in between, and a captured graph may
// contain both kernels.
#pragma once

#include <cstdint>

#include "cuda/gpu/stream.h"

namespace skald::cuda {

// What a request says. The host sets it back to None.
enum class Request : uint32_t { None, Compute, Nothing };

// Three page-locked words. The host sets `answer`, the GPU sets it back to 0. While `aborted` is
// not 0, no kernel waits: the step has failed, and its results do not count.
struct CpuTurn {
  Request* request;
  uint32_t* answer;
  const uint32_t* aborted;
};

// Some bytes to copy: a multiple of 2.
struct HostCopy {
  const void* from;
  void* to;
  int64_t bytes;
};

// Copies rows to the host's memory and sends Request::Compute.
struct SendRowsLaunch {
  static constexpr int kMost = 2;
  HostCopy copies[kMost];
  int count;
  CpuTurn turn;
};
void launch_send_rows(const SendRowsLaunch& launch, Stream stream);

// Waits for the answer and copies the results from the host's memory.
using ReceiveRowsLaunch = SendRowsLaunch;
void launch_receive_rows(const ReceiveRowsLaunch& launch, Stream stream);

// x += scale * from, once the answer is there. Does nothing if *asked is 0.
struct ReceiveSumLaunch {
  const float* from;  // [count], in the host's memory
  float* x;           // [count]
  float scale;
  int64_t count;
  const int32_t* asked;  // on the GPU
  CpuTurn turn;
};
void launch_receive_sum(const ReceiveSumLaunch& launch, Stream stream);

}  // namespace skald::cuda
