// All that the rest of skald sees of CUDA. A build without a CUDA toolkit has the same functions,
// which say so (no_cuda.cpp).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/backend.h"

namespace skald::cuda {

struct DeviceInfo {
  int index = 0;
  std::string name;
  int compute_capability = 0;  // 90 for sm_90
  int multiprocessors = 0;
  int64_t total_bytes = 0, free_bytes = 0;
};

// The GPUs that can be used; when there is none, `problem` says why.
struct Devices {
  std::vector<DeviceInfo> devices;
  std::string problem;
};
Devices list_devices();

// What an executor would take of this GPU's memory. No GPU is needed, and no CUDA toolkit: `gpu`
// may describe one that is elsewhere. Throws Error where CUDA has no kernels for the model.
MemoryPlan plan_memory(const Model& model, const RunOptions& options, const DeviceInfo& gpu);

std::unique_ptr<Executor> make_executor(const Model& model, const RunOptions& options, int device);

// Bytes per second that the GPU reads from its memory, far more than its caches hold.
double measure_read_bandwidth(int device);

}  // namespace skald::cuda
