// What `skald doctor` knows about the machine: facts alone, judged in doctor_findings.h. Gathering
// reads files and the environment and never fails; what cannot be read stays empty.
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

  // GPUs as the system sees them, whether CUDA starts or not.
  int pci_gpus = 0;           // NVIDIA display and 3D controllers
  std::string kernel_driver;  // version of the loaded kernel module, "580.82.07"; empty: none
  bool uvm = false;           // the module nvidia_uvm is loaded, or built in
  bool nouveau = false;       // the free driver, which keeps NVIDIA's from loading
  int device_nodes = 0;       // /dev/nvidia0 and so on
  bool nodes_open = true;     // all of them, and those of control and uvm, may be opened
  bool wsl = false;           // Windows with NVIDIA's driver: a GPU without device nodes

  // What the process runs in.
  std::string container;                       // "docker", "podman", ...; empty: none
  std::optional<std::string> visible_devices;  // CUDA_VISIBLE_DEVICES
  std::string slurm_job;                       // its number; empty: none
  bool slurm_gpus = false;                     // the job was given some
  bool slurm_host = false;                     // Slurm is installed or configured

  // CPU and memory.
  std::string cpu_name;
  int cores = 0;           // online, hardware threads
  int allowed_cores = 0;   // of them, by the process's affinity
  double cgroup_cpus = 0;  // CPU time per time; 0: no limit
  int threads = 0;         // that skald takes
  cpu::Simd simd;
  int64_t memory_bytes = 0, available_bytes = 0;
  int64_t cgroup_memory_bytes = 0;  // 0: no limit
};

std::string cuda_version(int version);  // 13000 is "13.0"

using Environment = std::function<std::optional<std::string>(const char* name)>;
std::optional<std::string> process_environment(const char* name);

// Without CUDA, which takes a while to start. `root` is "/", or a folder that looks like one.
Facts gather_surroundings(const std::filesystem::path& root, const Environment& environment);
void gather_cpu(Facts& facts, const std::filesystem::path& root);  // and memory

// Everything; starts CUDA on each GPU.
Facts gather_facts();

}  // namespace skald
