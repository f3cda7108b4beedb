// Gathers facts about the machine; findings.h judges them. Gathering reads files and environment
// variables and never fails: a fact that cannot be read stays empty.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cuda/cuda.h"
#include "engine/cpu/simd.h"

namespace skald {

struct Facts {
  // GPUs as CUDA sees them.
  cuda::System cuda;
  std::vector<cuda::DeviceInfo> gpus;

  // GPUs as the system sees them, also if CUDA does not start.
  int pci_gpus = 0;           // NVIDIA display and 3D controllers
  std::string kernel_driver;  // version of the loaded kernel module, "580.82.07"; empty: none
  bool uvm = false;           // the module nvidia_uvm is loaded, or built in
  bool nouveau = false;       // nouveau is loaded, which blocks NVIDIA's driver
  int device_nodes = 0;       // number of /dev/nvidia0, /dev/nvidia1, ...
  bool nodes_open = true;     // this user may open them, /dev/nvidiactl and /dev/nvidia-uvm
  bool wsl = false;           // Windows with NVIDIA's driver: a GPU without device nodes

  // What would build skald for the GPU; empty in a skald that is built for it (toolkit.h).
  std::string nvcc;          // the compiler's path; empty: none was found
  std::string nvcc_version;  // "13.0"
  std::string
      nvcc_problem;  // its error about an empty file, as with a g++ that is too new; empty: none

  // Container and job.
  std::string container;                       // "docker", "podman", ...; empty: none
  std::optional<std::string> visible_devices;  // CUDA_VISIBLE_DEVICES
  std::string slurm_job;                       // number of the Slurm job; empty: none
  bool slurm_gpus = false;                     // the job has GPUs
  bool slurm_host = false;                     // Slurm is installed or configured

  // CPU, memory and system.
  std::string glibc;  // version of the C library that runs: "2.36"
  std::string cpu_name;
  int cores = 0;           // hardware threads that are online
  int allowed_cores = 0;   // hardware threads in the process's affinity mask
  double cgroup_cpus = 0;  // the control group's limit, in CPUs; 0: no limit
  int threads = 0;         // skald's default number of threads
  cpu::Simd simd;
  int64_t memory_bytes = 0, available_bytes = 0;
  int64_t cgroup_memory_bytes = 0;  // 0: no limit
};

std::string cuda_version(int version);  // 13000 is "13.0"

using Environment = std::function<std::optional<std::string>(const char* name)>;
std::optional<std::string> process_environment(const char* name);

// Gathers GPUs, container and job without starting CUDA, which takes time. `root` is "/"; tests
// pass a folder that imitates one.
Facts gather_surroundings(const std::filesystem::path& root, const Environment& environment);
void gather_cpu(Facts& facts, const std::filesystem::path& root);  // and memory

// Gathers all facts. Starts CUDA on each GPU.
Facts gather_facts();

}  // namespace skald
