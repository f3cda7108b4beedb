// Where a model runs: --device cpu, cuda or cuda:N.
#pragma once

#include <memory>
#include <string>

#include "cuda/cuda.h"
#include "engine/backend.h"

namespace skald {

struct Device {
  bool cuda = false;
  int index = 0;
};

Device parse_device(const std::string& name);  // throws Error(Exit::Usage)

cuda::DeviceInfo describe_gpu(const Device& device);  // throws Error where it is not there

// Says on stderr what of the memory plan a user should know.
std::unique_ptr<Executor> make_executor(const Model& model, const RunOptions& options,
                                        const Device& device);

// Bytes per second that the device reads from its memory; `threads` is for the CPU, 0: all.
double measure_read_bandwidth(const Device& device, int threads);

}  // namespace skald
