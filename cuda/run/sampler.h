// Sampler on the GPU: picks the same tokens from logits in device memory. The GPU reads settings
// from page-locked memory and writes results to it. The caller owns the logits. One thread at a
// time may use a DeviceSampler.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "cuda/gpu/handles.h"
#include "cuda/gpu/memory.h"
#include "cuda/kernels/sample/sample.h"
#include "engine/step/backend.h"

namespace skald::cuda {

// True if a row with these settings is picked on the device. Otherwise its logits are copied to the
// host, and Sampler picks the same token, more slowly. A row is picked on the host if
//   - a parameter is set that engine/sampling/sampling_params.cpp lists as host-only
//     (device_can_sample());
//   - it wants more than kMostTopTokens top_logprobs;
//   - one of several biases forces a token;
//   - penalties and biases could touch more than kMostAdjustments tokens, as with an unlimited
//     repeat_last_n.
// A row with a mask of allowed tokens is also picked on the host if a bias forces a token, or if
// the GPU's shared memory is too small for a row.
bool samples_on_device(const SamplingParams& params);

// The current device as launches see it, if it runs code for `compute_capability`.
SampleGpu sample_gpu(int compute_capability);

class DeviceSampler {
 public:
  // For calls of up to `rows` rows. Allocates sample_settings_bytes() and sample_result_bytes().
  DeviceSampler(int64_t vocab, int64_t rows, const SampleGpu& gpu);

  // Brings row i of pick()'s logits to the host, for a row that is not picked on the device.
  using HostLogits = std::function<std::span<const float>(int64_t row)>;

  // Appends one pick per row to `picked`, and waits for the results. logits: [requests, vocab] on
  // the device; they are unchanged afterwards. Throws the Error that Sampler throws for the first
  // row with an error.
  void pick(float* logits, std::span<const PickRequest> requests, const HostLogits& host_logits,
            Stream stream, std::vector<Picked>& picked);

  // pick() in three calls, for requests with picks_at_once(): set(), launch(), wait(). A launch can
  // be captured in a graph, because it depends only on the number of rows and on all_greedy().
  // Kernels enqueued on the stream after set() read the settings, which are valid until wait()
  // returns.
  bool picks_at_once(std::span<const PickRequest> requests) const;
  bool all_greedy(std::span<const PickRequest> requests) const;  // true: a faster kernel fits
  void set(std::span<const PickRequest> requests, std::span<const NextRow> next, Stream stream);
  struct Rows {
    float* logits;
    int count;
    bool greedy;  // all_greedy()
  };
  void launch(const Rows& rows, const NextStep& next, Stream stream) const;
  void end_launch(Stream stream) const;  // call it before a capture ends
  void wait(int64_t rows, Stream stream, std::vector<Picked>& picked) const;

 private:
  bool picks_on_device(const PickRequest& request) const;
  SampleRow row_of(const PickRequest& request, TokenAdjustment* adjustments);
  int list_adjustments(const PickRequest& request, TokenAdjustment* adjustments);
  SampleLaunch launch_of(float* logits, int first, int count) const;
  void sample(const SampleLaunch& launch, bool greedy, Stream stream) const;
  void wait_for(SampleResult& result, Stream stream) const;
  Picked finish(const SampleResult& result) const;

  // Places in the settings on the host; on_device() gives the same place on the device.
  SampleRow* rows() const { return settings_.as<SampleRow>(); }
  uint64_t* mask(int64_t row) const {
    return reinterpret_cast<uint64_t*>(rows() + most_rows_) + row * mask_words(vocab_);
  }
  TokenAdjustment* adjustments(int64_t row) const {
    return reinterpret_cast<TokenAdjustment*>(mask(most_rows_)) + row * kMostAdjustments;
  }
  template <class T>
  T* on_device(T* host) const {
    const auto offset = reinterpret_cast<std::byte*>(host) - settings_.as<std::byte>();
    return reinterpret_cast<T*>(sent_settings_.as<std::byte>() + offset);
  }
  void send(int64_t rows);
  SampleResult* results() const { return results_.as<SampleResult>(); }

  int64_t vocab_, most_rows_;
  SampleGpu gpu_;
  bool has_greedy_;  // a greedy kernel supports this vocabulary and GPU
  int most_masked_;  // bound on the rows of one launch with masks
  PinnedMemory settings_;
  DeviceMemory sent_settings_;
  PinnedMemory results_;
  DeviceMemory first_results_;  // results of launch(), copied to the host later
  StreamOwner beside_;          // copies settings and results
  EventOwner settings_event_, pick_event_, results_event_;
  std::vector<int32_t> penalized_;  // scratch
  Sampler sampler_;
};

}  // namespace skald::cuda
