#include "cuda/run/weight_copies.h"

#include <algorithm>
#include <utility>

#include "cuda/gpu/check.h"

namespace skald::cuda {

WeightCopies::WeightCopies(const Placement& placement, const LoadedModel& loaded,
                           ExpertCaches& caches, Stream stream)
    : loaded_(loaded), caches_(caches), stream_(stream), hosted_(placement.hosted()) {
  if (hosted_.empty()) return;
  beside_.emplace();
  computed_.emplace();
  for (size_t op : placement.streamed) copied_.try_emplace(op);
}

// The weights must outlive the copies.
WeightCopies::~WeightCopies() {
  if (beside_) cudaStreamSynchronize(*beside_);
}

void WeightCopies::begin(const StepPlan& plan) {
  // Copies that have begun leave out experts that a cache had, and may have lost since.
  const bool valid = std::exchange(begun_ops_, {}) == plan.begun && caches_.known();
  if (!caches_.known()) caches_.learn();
  if (valid) return;
  for (size_t op : plan.begun) copy(op);
}

void WeightCopies::copy(size_t op) {
  SKALD_CUDA(cudaEventRecord(*computed_, stream_));
  SKALD_CUDA(cudaStreamWaitEvent(*beside_, *computed_, 0));
  if (caches_.has(op)) {
    caches_.copy_missing(op, *beside_);
  } else {
    copy_all(op);
  }
  SKALD_CUDA(cudaEventRecord(copied_.at(op), *beside_));
}

void WeightCopies::copy_all(size_t op) {
  const HostedOp& hosted = loaded_.hosted(op);
  SKALD_CUDA(cudaMemcpyAsync(hosted.slot, hosted.memory.data(),
                             static_cast<size_t>(hosted.memory.bytes()), cudaMemcpyHostToDevice,
                             *beside_));
}

void WeightCopies::await(size_t op, int multiprocessors) {
  SKALD_CUDA(cudaStreamWaitEvent(stream_, copied_.at(op), 0));
  if (caches_.has(op)) caches_.copy_cached(op, multiprocessors);
}

// Mapped weights have no slots, so parts of them are copied to a buffer.
int64_t WeightCopies::copy_measured(size_t op) {
  constexpr int64_t kBuffer = 64 << 20;
  const HostedOp& hosted = loaded_.hosted(op);
  if (hosted.slot) {
    copy_all(op);
    return hosted.memory.bytes();
  }
  if (measured_.bytes() == 0) measured_ = DeviceMemory(kBuffer, "measuring the link");
  const int64_t bytes = std::min(kBuffer, hosted.memory.bytes());
  SKALD_CUDA(cudaMemcpyAsync(measured_.as<void>(), hosted.memory.data(), static_cast<size_t>(bytes),
                             cudaMemcpyHostToDevice, *beside_));
  return bytes;
}

void WeightCopies::start_measuring(int64_t bytes) {
  start_.emplace();
  end_.emplace();
  measured_bytes_ = 0;
  SKALD_CUDA(cudaEventRecord(*start_, *beside_));
  while (measured_bytes_ < bytes) {
    for (size_t op : hosted_) {
      if (measured_bytes_ >= bytes) break;
      measured_bytes_ += copy_measured(op);
    }
  }
  SKALD_CUDA(cudaEventRecord(*end_, *beside_));
}

double WeightCopies::measured() {
  SKALD_CUDA(cudaEventSynchronize(*end_));
  measured_ = {};
  float ms = 0;
  SKALD_CUDA(cudaEventElapsedTime(&ms, *start_, *end_));
  return ms > 0 ? static_cast<double>(measured_bytes_) / (ms * 1e-3) : 0;
}

}  // namespace skald::cuda
