// Chooses where a model runs: --device auto, cpu, cuda or cuda:N, and --require-gpu. `auto` takes
// a GPU that can run the model, else the CPU; if the machine has a GPU that cannot be used, a line
// on stderr says why. A device given by name is used, or the command fails: it is never replaced.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/model/nodes.h"
#include "cuda/cuda.h"
#include "engine/step/backend.h"

namespace skald {

struct DeviceFlags {
  std::string name = "auto";
  bool require_gpu = false;
  int ranks = 1;                  // --tp; 0: auto
  std::string flag = "--device";  // that gave the name, for messages
  std::string list = {};          // --devices: the numbers of different GPUs, "0,1,3"; may be empty
  std::string split = {};         // --split: tensor, replica or empty
  std::string rank = {};          // --rank (app/model/nodes.h); may be empty
};

// How many ranks compute each copy of the model: --tp, all of --devices with --split tensor, or
// those of --rank. 0: --tp auto. Throws Error(Exit::Usage) where the flags contradict each other.
int asked_ranks(const DeviceFlags& flags);

// What computes one model: the CPU, a GPU, or several GPUs together.
struct Device {
  bool cuda = false;
  int index = 0;               // of the GPU, or of the first of several
  bool automatic = false;      // --device auto: choose_device() is still to decide
  bool required = false;       // --require-gpu
  int ranks = 1;               // 0: as many as the model is planned for (Model::shard)
  std::vector<int> gpus = {};  // of all ranks; empty: `ranks` GPUs from `index` on
  // If each rank has a process of its own: which this one has.
  std::optional<RankPlace> place = {};

  std::vector<int> rank_gpus() const;
};

Device parse_device(const DeviceFlags& flags);  // throws Error(Exit::Usage)

// Each device takes as many GPUs of --devices as it has ranks. Without --devices: that of --device.
std::vector<Device> parse_devices(const DeviceFlags& flags);

// asked_ranks(), or for --tp auto the smallest number of GPUs whose memory holds all weights.
int choose_ranks(const DeviceFlags& flags, const Model& model, const RunOptions& options);

// The GPUs that may compute a model together, from the device's on.
int gpus_from(const Device& device);

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

// Looks for a GPU, decides, and prints the notice. A device that is not `automatic` stays as it is,
// but for its ranks, if they are 0.
Device choose_device(const Device& asked, const Model& model, const RunOptions& options);

// The value of RunOptions::rows for --rows 0. `gpu` is nullptr on the CPU.
int64_t default_rows(const Model& model, const RunOptions& options, const cuda::DeviceInfo* gpu);

// The plan of make_executor() for a device that is not automatic. Loads nothing.
MemoryPlan plan_memory(const Model& model, const RunOptions& options, const Device& device);

// Throws Error(Exit::Usage) if the model has several ranks (Model::shard) and none of its parts can
// be divided by them.
void check_divisible(const Model& model);

// Chooses the device if `device` is automatic, loads the model and prints plan_notes() to stderr.
std::unique_ptr<Executor> make_executor(const Model& model, const RunOptions& options,
                                        const Device& device);
// Makes one executor per device, in parallel. Each loads the whole model.
std::vector<std::unique_ptr<Executor>> make_executors(const Model& model, const RunOptions& options,
                                                      const std::vector<Device>& devices);

// Bytes per second that the device reads from its memory; of several GPUs, all together; of ranks
// in several processes, as if all were like this one. `threads`
// counts for the CPU; 0: all.
double measure_read_bandwidth(const Device& device, int threads);
// The same while an executor holds its memory, for reports about this executor. 0: its weights are
// so few that the number would say nothing, or there is too little memory to measure.
double measured_bandwidth(const Device& device, const Executor& executor, int threads);

}  // namespace skald
