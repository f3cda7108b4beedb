// Copies streamed weights to their slots while a step computes. The copies run on a stream of their
// own, and events let both streams wait for one another: the host waits only for copies from memory
// that is not page-locked. A step ends with the first copies of the next step, so that the link has
// no pause between steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "cuda/gpu/handles.h"
#include "cuda/gpu/memory.h"
#include "cuda/load/loaded_model.h"
#include "cuda/plan/step_plan.h"
#include "cuda/run/expert_caches.h"

namespace skald::cuda {

class WeightCopies {
 public:
  // `stream` is the one that computes. Borrows all; makes nothing if no weights are in the host's
  // memory.
  WeightCopies(const Placement& placement, const LoadedModel& loaded, ExpertCaches& caches,
               Stream stream);
  ~WeightCopies();

  // begin() and end() enclose the entries of a plan with copies. A step that ends by an Error needs
  // no end(): the next begin() starts all copies anew.
  void begin(const StepPlan& plan);
  void end(const StepPlan& plan) { begun_ops_ = plan.begun; }
  void copy(size_t op);  // once everything enqueued so far has computed
  // What is enqueued from now on waits for the op's last copy. Experts in a cache are then copied
  // from there, by a kernel.
  void await(size_t op, int multiprocessors);

  // Copies so many bytes of weights; measured() waits and returns the bytes per second. Both are
  // called before the first step.
  void start_measuring(int64_t bytes);
  double measured();

 private:
  void copy_all(size_t op);
  int64_t copy_measured(size_t op);  // returns the bytes

  const LoadedModel& loaded_;
  ExpertCaches& caches_;
  Stream stream_;
  std::optional<StreamOwner> beside_;
  std::map<size_t, EventOwner> copied_;  // by op
  std::optional<EventOwner> computed_;
  std::vector<size_t> begun_ops_;  // ops whose copies have begun for the next step
  std::vector<size_t> hosted_;     // what a measurement copies
  DeviceMemory measured_;          // where it copies mapped weights to
  std::optional<TimedEventOwner> start_, end_;
  int64_t measured_bytes_ = 0;
};

}  // namespace skald::cuda
