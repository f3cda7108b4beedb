// All that the rest of skald sees of CUDA. A build without a CUDA toolkit has the same functions,
// which say so (no_cuda.cpp).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/selftest/report.h"
#include "engine/step/backend.h"

namespace skald::cuda {

bool built();  // with CUDA; if not, there is nothing below but problems

// What can be said before any GPU is started.
struct System {
  bool built = false;         // the rest is empty without it
  std::string toolkit;        // "13.0.88", of the build
  std::string architectures;  // that the binary holds code for: "75-virtual 80-real 90a-real"
  int runtime_version = 0;    // of the linked runtime, 13000 for 13.0
  int driver_version = 0;     // the newest CUDA that the driver knows; 0: no driver
  int devices = 0;            // visible to this process
  std::string error;          // CUDA's name for why there is none: "cudaErrorNoDevice"
  std::string problem;        // the same in a sentence
};
System look_at_system();

// How the kernels get onto a GPU: as its own machine code, compiled from PTX by the driver at the
// first start, or not at all.
enum class Code : uint8_t { Native, Ptx, None };
enum class Sharing : uint8_t { Shared, Exclusive, Prohibited };  // by several processes

struct DeviceInfo {
  int index = 0;
  std::string name;
  int compute_capability = 0;  // 90 for sm_90
  int multiprocessors = 0;
  int64_t total_bytes = 0, free_bytes = 0;  // free: 0 where CUDA did not start
  Code code = Code::None;
  Sharing sharing = Sharing::Shared;
  bool ecc = false;     // its memory corrects errors
  std::string error;    // CUDA's name for why it cannot be used, where CUDA says so
  std::string problem;  // why it cannot be used; empty: it can
};

// Starts CUDA on that GPU alone, which takes a tenth of a second and some memory. Never throws for
// a broken GPU, and leaves the calling thread's current device as it is.
DeviceInfo look_at_device(int index);

// The same, and makes it the calling thread's current device. Throws Error where it cannot be used.
DeviceInfo describe_device(int index);

// All of them, usable or not; when there is none, `problem` says why.
struct Devices {
  std::vector<DeviceInfo> devices;
  std::string problem;
};
Devices list_devices();

// Why no GPU can run this model yet; empty: it can be run. Looks at the model alone.
std::string model_problem(const Model& model);

// What an executor would take of this GPU's memory. No GPU is needed, and no CUDA toolkit: `gpu`
// may describe one that is elsewhere. Throws Error where CUDA has no kernels for the model.
MemoryPlan plan_memory(const Model& model, const RunOptions& options, const DeviceInfo& gpu);

// How many rows a step should have where nobody asks for a number: long ones keep the GPU's matrix
// units busy, but take memory. Never more than the tokens that the cache will hold.
int64_t default_rows(const Model& model, const RunOptions& options, const DeviceInfo& gpu);

// For hunting a race: what each leaves out changes speed and no result.
struct Switches {
  bool graphs = true;              // else each step's kernels are launched one by one
  bool dependent_launches = true;  // else no kernel starts before the one ahead has finished
  bool clusters = true;            // of blocks, in decode attention
};
std::unique_ptr<Executor> make_executor(const Model& model, const RunOptions& options, int device,
                                        const Switches& switches = {});

// Runs the cases of engine/selftest on every kernel that takes them. A compute capability below the
// GPU's, such as 75, leaves out what such a GPU cannot run; 0 is the GPU's own.
void self_test(const selftest::Request& request, int device, int compute_capability,
               selftest::Report& report);

// A fused op and the kernels that it gets, one text for each of the asked numbers of rows.
struct KernelUse {
  std::string ops;      // what is fused: "rms_norm + 3 linear"
  std::string weights;  // "attn_q attn_k attn_v"
  std::string shape;    // "[6144, 4096]"
  int times = 0;        // in a step
  std::vector<std::string> kernels;
};

// What launches of a decode step leave for later ones.
struct EdgeUse {
  std::string what;        // "prepared rows"
  std::string from, to;    // weights, or "attention"
  std::vector<int> times;  // in a step, for each of the asked numbers of rows
};

// As the executor chooses. Neither a GPU nor a CUDA toolkit is needed.
std::vector<KernelUse> list_kernels(const Model& model, const RunOptions& options,
                                    const DeviceInfo& gpu, std::span<const int> rows);
std::vector<EdgeUse> list_edges(const Model& model, const RunOptions& options,
                                const DeviceInfo& gpu, std::span<const int> rows);

// Bytes per second that the GPU reads from its memory, far more than its caches hold.
double measure_read_bandwidth(int device);

// Bytes per second; each the best of a few passes.
struct Speeds {
  double read = 0, copy = 0;          // of its own memory; copies count what is read and written
  double from_host = 0, to_host = 0;  // page-locked memory of the host
};
Speeds measure_speeds(int device);

}  // namespace skald::cuda
