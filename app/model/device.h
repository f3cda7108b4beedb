// Where a model runs: --device auto, cpu, cuda or cuda:N, and --require-gpu. `auto` takes a GPU
// where one can run the model and says so on stderr where one is there but cannot; what is asked
// for by name is taken or an Error, never replaced.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cuda/cuda.h"
#include "engine/step/backend.h"

namespace skald {

struct DeviceFlags {
  std::string name = "auto";
  bool require_gpu = false;
};

struct Device {
  bool cuda = false;
  int index = 0;
  // Of a choice that is still open: auto, or a GPU of which only the index is known.
  bool automatic = false;
  bool required = false;  // --require-gpu
};

Device parse_device(const DeviceFlags& flags);  // throws Error(Exit::Usage)

// `names` is what --devices says: different GPUs by number, "0,1,3". Empty: the one of --device.
std::vector<Device> parse_devices(const std::string& names, const DeviceFlags& flags);

cuda::DeviceInfo describe_gpu(const Device& device);  // throws Error where it cannot be used

// What is known of the GPUs when a device is chosen.
struct GpuOutlook {
  int index = -1;         // of the one to take; -1: none
  bool expected = false;  // a user would expect one to be used
  std::string reason;     // why none can be
  std::string advice;     // what to do about it
};

struct Decision {
  Device device;       // cpu or cuda:N
  std::string notice;  // one line for stderr, empty: nothing to say
};

// The choice itself. `cpu_reason` is why the model or the settings need the CPU, or empty.
Decision decide(const Device& asked, const std::string& cpu_reason, const GpuOutlook& gpus);

// The same with the model and the machine looked at; prints the notice. A device that was named or
// chosen before comes back as it is.
Device choose_device(const Device& asked, const Model& model, const RunOptions& options);

// What RunOptions::rows is where the user leaves it at 0, on a GPU or (nullptr) the CPU.
int64_t default_rows(const Model& model, const RunOptions& options, const cuda::DeviceInfo* gpu);

// Chooses first, where that is still to do. Says on stderr what of the memory plan a user should
// know.
std::unique_ptr<Executor> make_executor(const Model& model, const RunOptions& options,
                                        const Device& device);
// One on each, all made at a time: each loads the whole model.
std::vector<std::unique_ptr<Executor>> make_executors(const Model& model, const RunOptions& options,
                                                      const std::vector<Device>& devices);

// Bytes per second that a chosen device reads from its memory; `threads` is for the CPU, 0: all.
double measure_read_bandwidth(const Device& device, int threads);

}  // namespace skald
