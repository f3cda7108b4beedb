#include "cuda/run/weight_copies.h"

#include <utility>

#include "cuda/gpu/check.h"

namespace skald::cuda {

WeightCopies::WeightCopies(const Placement& placement, const LoadedModel& loaded, Stream stream)
    : loaded_(loaded), stream_(stream) {
  if (!placement.streams()) return;
  beside_.emplace();
  computed_.emplace();
  for (size_t op : placement.streamed) {
    copied_.try_emplace(op);
    if (!longest_ || placement.ops[op].bytes > placement.ops[*longest_].bytes) longest_ = op;
  }
}

// The weights must outlive the copies.
WeightCopies::~WeightCopies() {
  if (beside_) cudaStreamSynchronize(*beside_);
}

void WeightCopies::begin(const StepPlan& plan) {
  if (std::exchange(begun_, {}) == plan.begun) return;
  for (size_t op : plan.begun) copy(op);
}

void WeightCopies::copy(size_t op) {
  const HostedOp& hosted = loaded_.hosted(op);
  SKALD_CUDA(cudaEventRecord(*computed_, stream_));
  SKALD_CUDA(cudaStreamWaitEvent(*beside_, *computed_, 0));
  SKALD_CUDA(cudaMemcpyAsync(hosted.slot, hosted.memory.data(),
                             static_cast<size_t>(hosted.memory.bytes()), cudaMemcpyHostToDevice,
                             *beside_));
  SKALD_CUDA(cudaEventRecord(copied_.at(op), *beside_));
}

void WeightCopies::await(size_t op) { SKALD_CUDA(cudaStreamWaitEvent(stream_, copied_.at(op), 0)); }

double WeightCopies::measure() {
  if (!longest_) return 0;
  TimedEventOwner start, end;
  float ms = 0;
  for (int pass = 0; pass < 2; ++pass) {  // the first one may be slower
    SKALD_CUDA(cudaEventRecord(start, *beside_));
    copy(*longest_);
    SKALD_CUDA(cudaEventRecord(end, *beside_));
    SKALD_CUDA(cudaEventSynchronize(end));
    SKALD_CUDA(cudaEventElapsedTime(&ms, start, end));
  }
  return ms > 0 ? static_cast<double>(loaded_.hosted(*longest_).memory.bytes()) / (ms * 1e-3) : 0;
}

}  // namespace skald::cuda
