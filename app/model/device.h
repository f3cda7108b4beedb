// Chooses where a model runs: --device auto, cpu, cuda or cuda:N, and --require-gpu. `auto` takes
// a GPU that can run the model, else the CPU; if the machine has a GPU that cannot be used, a line
// on stderr says why. A device given by name is used, or the command fails: it is never replaced.
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
  int ranks = 1;                  // --tp
  std::string flag = "--device";  // that gave the name, for messages
};

// What computes one model: the CPU, a GPU, or several GPUs together.
struct Device {
  bool cuda = false;
  int index = 0;           // of the GPU, or of the first of several
  bool automatic = false;  // --device auto: choose_device() is still to decide
  bool required = false;   // --require-gpu
  int ranks = 1;
  std::vector<int> gpus = {};  // of all ranks; empty: `ranks` GPUs from `index` on

  std::vector<int> rank_gpus() const;
};

Device parse_device(const DeviceFlags& flags);  // throws Error(Exit::Usage)

// `names` is the value of --devices, the numbers of different GPUs: "0,1,3". Each device takes as
// many of them as it has ranks. Empty: --device.
std::vector<Device> parse_devices(const std::string& names, const DeviceFlags& flags);

cuda::DeviceInfo describe_gpu(const Device& device);  // throws Error if the GPU cannot be used

// The result of looking for a GPU.
struct GpuSearch {
  int index = -1;         // the GPU to use; -1: none
  bool expected = false;  // the machine has a GPU, so a user expects it to be used
  std::string reason;     // why no GPU can be used
  std::string advice;     // what the user can do about it
};

struct Decision {
  Device device;       // cpu or cuda:N
  std::string notice;  // one line for stderr, or empty
};

// Decides between a GPU and the CPU. `cpu_reason` says why the model or the settings need the CPU,
// or is empty. Throws Error(Exit::Failed) if a required GPU cannot be used.
Decision decide(const Device& asked, const std::string& cpu_reason, const GpuSearch& gpus);

// Looks for a GPU, decides, and prints the notice. Returns a device that is not `automatic`
// unchanged.
Device choose_device(const Device& asked, const Model& model, const RunOptions& options);

// The value of RunOptions::rows for --rows 0. `gpu` is nullptr on the CPU.
int64_t default_rows(const Model& model, const RunOptions& options, const cuda::DeviceInfo* gpu);

// The plan of make_executor() for a device that is not automatic. Loads nothing.
MemoryPlan plan_memory(const Model& model, const RunOptions& options, const Device& device);

// Chooses the device if `device` is automatic, loads the model and prints plan_notes() to stderr.
std::unique_ptr<Executor> make_executor(const Model& model, const RunOptions& options,
                                        const Device& device);
// Makes one executor per device, in parallel. Each loads the whole model.
std::vector<std::unique_ptr<Executor>> make_executors(const Model& model, const RunOptions& options,
                                                      const std::vector<Device>& devices);

// Bytes per second that the device reads from its memory; of several GPUs, all together. `threads`
// counts for the CPU; 0: all.
double measure_read_bandwidth(const Device& device, int threads);
// The same while an executor holds its memory, for reports about this executor. 0: its weights are
// so few that the number would say nothing, or there is too little memory to measure.
double measured_bandwidth(const Device& device, const Executor& executor, int threads);

}  // namespace skald
