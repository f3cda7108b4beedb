// Sampler's twin on the GPU: the same picks from logits that stay there. Owns the few tables that
// go to the device and come back, one copy each way; the logits are the caller's. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "cuda/kernels/sample.h"
#include "cuda/memory.h"
#include "engine/backend.h"

namespace skald::cuda {

// Whether a row with these settings is picked on the device. If not, its logits come to the host
// and Sampler picks: for typical_p below 1, more than kMostTopTokens top_logprobs, a token forced
// by bias beside other biases, and penalties or biases that could touch more than kMostAdjustments
// tokens (an unlimited repeat_last_n with a penalty is one). So do rows whose context allows only
// some tokens, where a token is forced besides or a GPU's shared memory does not hold a row. That
// changes speed only: both pick the same.
bool samples_on_device(const SamplingParams& params);

// The current device, used with the kernels of this compute capability.
SampleGpu sample_gpu(int compute_capability);

class DeviceSampler {
 public:
  // For calls of up to `rows` rows. Allocates sample_settings_bytes() and sample_result_bytes().
  DeviceSampler(int64_t vocab, int64_t rows, const SampleGpu& gpu);

  // Row i of what pick() was called for, for the rows that are not picked on the device.
  using HostLogits = std::function<std::span<const float>(int64_t row)>;

  // Appends one pick a row to `picked`. logits: [requests, vocab] on the device, the same after as
  // before. Waits for the result; Errors are Sampler's, of the first row that has one.
  void pick(float* logits, std::span<const PickRequest> requests, const HostLogits& host_logits,
            Stream stream, std::vector<Picked>& picked);

 private:
  SampleRow row_of(int64_t row, const PickRequest& request, TokenAdjustment* adjustments);
  int list_adjustments(const PickRequest& request, TokenAdjustment* adjustments);
  Picked finish(const SampleResult& result) const;

  int64_t vocab_, most_rows_;
  SampleGpu gpu_;
  PinnedMemory host_table_;  // SampleRow of each row, then their adjustments
  DeviceMemory device_table_;
  PinnedMemory host_results_;
  DeviceMemory device_results_;
  std::vector<int32_t> penalized_;  // scratch
  Sampler sampler_;
};

}  // namespace skald::cuda
