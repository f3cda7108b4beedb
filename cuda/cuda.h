// The interface of the CUDA backend for the rest of skald. A build without a CUDA toolkit has the
// same functions, and they report that (no_cuda.cpp).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/selftest/report.h"
#include "engine/step/backend.h"

namespace skald::cuda {

bool built();  // true if this build has CUDA; otherwise all below only report problems

// What is known before any GPU is used.
struct System {
  bool built = false;         // false: all other fields are empty
  std::string toolkit;        // toolkit of the build: "13.0.88"
  std::string architectures;  // for which the binary has code: "75-virtual 80-real 90a-real"
  int runtime_version = 0;    // linked runtime; 13000 for 13.0
  int driver_version = 0;     // newest CUDA that the driver supports; 0: no driver
  int devices = 0;            // GPUs visible to this process
  std::string error;          // CUDA's error if there is none: "cudaErrorNoDevice"
  std::string problem;        // the error as a sentence
  // "libcublasLt.so.13" if this part of CUDA cannot be loaded; then `devices` is 0.
  std::string missing_library = {};
};
System look_at_system();

// How a GPU gets the kernels: as its own machine code, as PTX that the driver compiles at the first
// start, or not at all.
enum class Code : uint8_t { Native, Ptx, None };
// May several processes use the GPU?
enum class Sharing : uint8_t { Shared, Exclusive, Prohibited };

struct DeviceInfo {
  int index = 0;
  std::string name;
  int compute_capability = 0;  // 90 for sm_90
  int multiprocessors = 0;
  int64_t total_bytes = 0, free_bytes = 0;  // free_bytes: 0 if CUDA did not start
  // host_bytes: the host's memory that may hold weights that the GPU has no room for.
  // link_bytes_per_second: the speed of the link to the host, by its width and generation. 0: not
  // known.
  int64_t host_bytes = 0;
  double link_bytes_per_second = 0;
  Code code = Code::None;
  Sharing sharing = Sharing::Shared;
  bool mps = false;     // other programs' kernels may run at the same time, by NVIDIA's MPS
  bool ecc = false;     // memory with error correction
  std::string error;    // CUDA's error if the GPU cannot be used and CUDA gave one
  std::string problem;  // why the GPU cannot be used; empty if it can
};

// Starts CUDA on this GPU alone, which takes 0.1 s and some memory. Never throws for a broken GPU.
// The calling thread's current device stays as it is.
DeviceInfo look_at_device(int index);

// Like look_at_device(), but makes the GPU the thread's current device. Throws Error if it cannot
// be used.
DeviceInfo describe_device(int index);

// All GPUs, usable or not. `problem` says why there is none.
struct Devices {
  std::vector<DeviceInfo> devices;
  std::string problem;
};
Devices list_devices();

// Says why no GPU can run this model; empty if one can. Depends on the model alone.
std::string model_problem(const Model& model);

// The memory that an executor would take. `gpu` need not exist here, nor a CUDA toolkit. Throws
// Error if CUDA has no kernels for the model.
MemoryPlan plan_memory(const Model& model, const RunOptions& options, const DeviceInfo& gpu);

// The rows of a step if the user gives no number. Long steps use the GPU's matrix units better but
// take memory. Never more than the tokens that the cache holds.
int64_t default_rows(const Model& model, const RunOptions& options, const DeviceInfo& gpu);

// What the CPU computes of weights on the host: the part that its measured speed gives it, the part
// of a CPU that reads as fast as the link, or all that it can.
enum class CpuPart : uint8_t { Measured, AsLink, All };

// Switches for tests. The first three are for hunting a race: they change speed, never results.
struct Switches {
  bool graphs = true;              // false: every kernel is launched by the host
  bool dependent_launches = true;  // false: no kernel starts before its predecessor has finished
  bool clusters = true;            // decode attention uses clusters of blocks
  bool mail_on_host = false;       // ranks exchange through the host's memory
  CpuPart cpu_part = CpuPart::Measured;
};
std::unique_ptr<Executor> make_executor(const Model& model, const RunOptions& options, int device,
                                        const Switches& switches = {});

// Computes the model on all of these GPUs together, one rank on each.
inline constexpr int kMostGroupGpus = 8;
std::unique_ptr<Executor> make_group(const Model& model, const RunOptions& options,
                                     std::span<const int> devices, const Switches& switches = {});

// Runs the cases of engine/selftest on every kernel that supports them. compute_capability: kernels
// that such a GPU cannot run are left out; 0: the GPU's own.
void self_test(const selftest::Request& request, int device, int compute_capability,
               selftest::Report& report);

// Tests the sums and joined columns of GPUs that compute a model together. A GPU may stand in for
// several.
void test_exchange(std::span<const int> devices, selftest::Report& report);

// A fused op and its kernels: one text in `kernels` for each requested number of rows.
struct KernelUse {
  std::string ops;      // the ops that are fused: "rms_norm + 3 linear"
  std::string weights;  // "attn_q attn_k attn_v"
  std::string shape;    // "[6144, 4096]"
  int times = 0;        // how often a step has it
  std::vector<std::string> kernels;
};

// An edge of a decode step: what one launch leaves for a later one.
struct EdgeUse {
  std::string what;        // "prepared rows"
  std::string from, to;    // weights, or "attention"
  std::vector<int> times;  // how often a step has it, for each requested number of rows
};

// What the executor would choose. Needs neither a GPU nor a CUDA toolkit.
std::vector<KernelUse> list_kernels(const Model& model, const RunOptions& options,
                                    const DeviceInfo& gpu, std::span<const int> rows);
std::vector<EdgeUse> list_edges(const Model& model, const RunOptions& options,
                                const DeviceInfo& gpu, std::span<const int> rows);

// Bytes per second of reads from the GPU's memory, over far more bytes than the caches hold.
double measure_read_bandwidth(int device);

// Bytes per second; each is the best of a few passes.
struct Speeds {
  double read = 0, copy = 0;          // GPU memory; copy: bytes read plus bytes written
  double from_host = 0, to_host = 0;  // copies from and to page-locked memory
};
Speeds measure_speeds(int device);

// How fast GPUs that compute a model together add up their parts.
struct ExchangeSpeeds {
  bool direct = false;          // they reach each other's memory; otherwise, the host's
  bool nvlink = false;          // over NVLink
  double seconds_few = 0;       // of a sum of 2048 numbers, 8 KB
  double bytes_per_second = 0;  // that each GPU sends to each other one in a sum of many numbers
};
ExchangeSpeeds measure_exchange(std::span<const int> devices);

}  // namespace skald::cuda
