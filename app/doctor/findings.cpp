#include "app/doctor/findings.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "engine/base/size_text.h"

namespace skald {
namespace {

constexpr int kLeastCapability = 75;  // the oldest GPUs that the kernels support

std::string capability_text(int capability) {
  return concat(capability / 10, ".", capability % 10);
}

bool gpu_in_machine(const Facts& f) {
  return f.pci_gpus > 0 || f.device_nodes > 0 || !f.kernel_driver.empty() || f.wsl ||
         f.cuda.devices > 0;
}

// True if CUDA_VISIBLE_DEVICES hides all GPUs. Slurm writes "NoDevFiles".
bool hidden(const Facts& f) {
  if (!f.visible_devices) return false;
  const std::string& list = *f.visible_devices;
  return list.find_first_not_of(' ') == std::string::npos || list == "-1" || list == "NoDevFiles";
}

int listed_gpus(const std::string& list) {
  return 1 + static_cast<int>(std::count(list.begin(), list.end(), ','));
}

constexpr const char* kAskSlurm =
    "ask for one: srun or sbatch with --gres=gpu:1 (on some clusters --gpus=1 or a GPU partition)";

// ---- No GPU: find the first cause that explains it ----

Finding hidden_finding(const Facts& f, Severity expected) {
  if (!f.slurm_job.empty()) {
    return {expected,
            concat("this Slurm job (", printable(f.slurm_job),
                   ") has no GPUs: CUDA_VISIBLE_DEVICES is '", printable(*f.visible_devices), "'"),
            kAskSlurm};
  }
  return {
      Severity::Note,
      concat("CUDA_VISIBLE_DEVICES is '", printable(*f.visible_devices), "', which hides all GPUs"),
      "unset it to use the GPUs"};
}

// The newest CUDA that a driver of this version supports, without its minor number; 0: unknown.
int cuda_of_driver(const std::string& driver) {
  const int number = std::atoi(driver.c_str());
  constexpr std::pair<int, int> kFirst[] = {{580, 13}, {525, 12}, {450, 11}};
  for (const auto& [first, cuda] : kFirst) {
    if (number >= first) return cuda;
  }
  return 0;
}

constexpr const char* kToolkit12 =
    "load a toolkit of CUDA 12 (module load cuda/12, or conda: scripts/packages/README.md), then "
    "run "
    "scripts/run doctor in skald's source folder";

// A GPU, and a skald that was built without CUDA: what its build lacked.
Finding unbuilt_finding(const Facts& f) {
  const std::string what = "this machine has an NVIDIA GPU, but this skald was built without CUDA";
  const int driver = cuda_of_driver(f.kernel_driver);
  const std::string fitting =
      driver == 12 ? kToolkit12
                   : "run scripts/toolkit in skald's source folder, which gets a CUDA toolkit "
                     "without root, then scripts/run doctor";
  if (driver == 11) {
    return {Severity::Problem,
            concat(what, ", and the driver (version ", printable(f.kernel_driver),
                   ") is too old for CUDA 12, which skald needs"),
            "install a driver of version 525 or newer, 580 for CUDA 13"};
  }
  if (f.nvcc.empty()) return {Severity::Problem, what, fitting};
  const std::string nvcc = concat("nvcc ", printable(f.nvcc_version), " (", printable(f.nvcc), ")");
  if (!f.nvcc_problem.empty()) {
    return {Severity::Problem,
            concat(what, ", and ", nvcc,
                   " does not work with this g++ and C library: ", printable(f.nvcc_problem)),
            fitting};
  }
  if (driver > 0 && std::atoi(f.nvcc_version.c_str()) > driver) {
    return {Severity::Problem,
            concat(what, ", and ", nvcc, " makes programs that the driver (version ",
                   printable(f.kernel_driver), ", CUDA ", driver, ") does not run"),
            concat(kToolkit12, ", or install a driver of version 580 or newer")};
  }
  return {
      Severity::Problem, what,
      concat("run scripts/run doctor in skald's source folder: it builds for the GPU with ", nvcc)};
}

Finding library_finding(const Facts& f) {
  const int runtime = f.cuda.runtime_version;
  return {Severity::Problem, f.cuda.problem,
          concat("install NVIDIA's package libcublas-", runtime / 1000, "-", runtime % 1000 / 10,
                 "; without root, run scripts/toolkit in skald's source folder, and add the folder "
                 "lib of what it installs to LD_LIBRARY_PATH")};
}

// The finding that CUDA's error code gives; `what` is empty if the code explains nothing.
Finding by_error(const Facts& f) {
  const std::string& error = f.cuda.error;
  const std::string kernel =
      f.kernel_driver.empty() ? "" : concat(" (version ", printable(f.kernel_driver), ")");
  if (error == "cudaErrorInsufficientDriver" && f.cuda.driver_version > 0) {
    // An older driver of the same major version works. A CUDA 11 toolkit is no way out: its
    // compiler does not support C++20.
    const int driver = f.cuda.driver_version / 1000, runtime = f.cuda.runtime_version / 1000;
    return {
        Severity::Problem,
        concat("the NVIDIA driver", kernel, " is too old: it supports CUDA ",
               cuda_version(f.cuda.driver_version), ", and this skald needs CUDA ", runtime, ".0"),
        concat("install a newer driver, or on a data-center GPU the package cuda-compat-", runtime,
               "-", f.cuda.runtime_version % 1000 / 10, " with its folder in LD_LIBRARY_PATH",
               driver >= 12 ? concat(", or build skald with a toolkit of CUDA ", driver,
                                     " (module load cuda/", driver,
                                     ", or conda: scripts/packages/README.md)")
                            : "")};
  }
  if (error == "cudaErrorSystemDriverMismatch") {
    return {Severity::Problem,
            concat("the NVIDIA driver's library and its kernel module", kernel,
                   " have different versions"),
            "reboot after a driver update, or restart the container"};
  }
  if (error == "cudaErrorCompatNotSupportedOnDevice") {
    return {Severity::Problem, "the cuda-compat package is loaded on a GPU that does not allow it",
            "remove its folder from LD_LIBRARY_PATH, and install a newer driver if one is needed"};
  }
  if (error == "cudaErrorSystemNotReady") {
    return {Severity::Problem, "the GPUs are not ready: their NVSwitch fabric is not running",
            "start nvidia-fabricmanager of the driver's version"};
  }
  if (error == "cudaErrorStubLibrary") {
    return {Severity::Problem, "libcuda.so is the toolkit's stub, not the driver's library",
            "remove the 'stubs' folder from LD_LIBRARY_PATH"};
  }
  return {Severity::Note, "", ""};
}

std::string how_to_start(const std::string& container) {
  if (container == "apptainer" || container == "singularity") return "--nv";
  if (container == "podman") return "--device nvidia.com/gpu=all";
  if (container.starts_with("kube")) return "nvidia.com/gpu: 1 in its resource limits";
  return "--gpus all";
}

Finding by_container(const Facts& f, Severity expected) {
  return {expected,
          concat("no GPU devices (/dev/nvidia*) in this container (", printable(f.container), ")"),
          concat(expected == Severity::Problem ? "" : "if the host has a GPU, ",
                 "start the container with ", how_to_start(f.container))};
}

// Checks the driver's layers from the kernel module up to CUDA's needs.
Finding by_driver(const Facts& f) {
  if (f.kernel_driver.empty()) {
    return {Severity::Problem,
            concat("this machine has an NVIDIA GPU, but no NVIDIA driver is loaded",
                   f.nouveau ? " (nouveau uses the GPU)" : ""),
            "install the driver (Debian: nvidia-driver, Ubuntu: ubuntu-drivers install) and "
            "reboot, or load it with modprobe nvidia; with Secure Boot its module must be signed"};
  }
  if (f.device_nodes == 0) {
    return {Severity::Problem, "the NVIDIA driver is loaded, but /dev/nvidia0 is missing",
            "run nvidia-smi once as root, or nvidia-modprobe, to create it"};
  }
  if (!f.nodes_open) {
    return {Severity::Problem, "this user may not open /dev/nvidia*",
            "add the user to the group that owns them (often video or render); in a job, ask for a "
            "GPU"};
  }
  if (f.cuda.driver_version == 0) {
    return {Severity::Problem,
            "the NVIDIA driver is loaded, but its library libcuda.so.1 is not "
            "found",
            f.container.empty()
                ? "install it (Debian: libcuda1, Ubuntu: libnvidia-compute of the same version)"
                : concat("start the container with ", how_to_start(f.container),
                         "; Docker and Podman need NVIDIA's container toolkit, and 'compute' in "
                         "NVIDIA_DRIVER_CAPABILITIES")};
  }
  return {Severity::Problem, "the kernel module nvidia_uvm, which CUDA needs, is not loaded",
          "run sudo nvidia-modprobe -u -c 0, or sudo modprobe nvidia_uvm"};
}

bool driver_broken(const Facts& f) {
  return f.kernel_driver.empty() || f.device_nodes == 0 || !f.nodes_open ||
         f.cuda.driver_version == 0 || (!f.uvm && f.container.empty());
}

// ---- GPUs that CUDA shows ----

Finding gpu_problem(const cuda::DeviceInfo& gpu) {
  const std::string where = concat("GPU ", gpu.index, " (", printable(gpu.name), "): ");
  const std::string capability = capability_text(gpu.compute_capability);
  if (gpu.sharing == cuda::Sharing::Prohibited) {
    return {Severity::Problem, where + "its compute mode is 'prohibited'",
            "run sudo nvidia-smi -c DEFAULT to allow programs on it"};
  }
  if (gpu.error == "cudaErrorDevicesUnavailable") {
    const bool exclusive = gpu.sharing == cuda::Sharing::Exclusive;
    return {Severity::Problem,
            where + (exclusive ? "another process uses it, and its compute mode is 'exclusive'"
                               : "it is busy or unavailable"),
            "nvidia-smi shows who uses it; wait, or use another GPU with CUDA_VISIBLE_DEVICES"};
  }
  if (gpu.error == "cudaErrorMemoryAllocation") {
    return {Severity::Problem, where + "its memory is full",
            "nvidia-smi shows who uses it; wait, or use another GPU with CUDA_VISIBLE_DEVICES"};
  }
  if (!gpu.error.empty()) {
    return {Severity::Problem, where + gpu.problem,
            "nvidia-smi and dmesg may say more; a reset or a reboot often helps"};
  }
  if (gpu.code == cuda::Code::None && gpu.compute_capability < kLeastCapability) {
    return {Severity::Problem,
            concat(where, "compute capability ", capability, " is older than ",
                   capability_text(kLeastCapability), ", which skald's kernels need"),
            "use another GPU, or the CPU"};
  }
  return {Severity::Problem, where + gpu.problem,
          concat("build with -DCMAKE_CUDA_ARCHITECTURES=", gpu.compute_capability,
                 gpu.code == cuda::Code::Ptx ? ", or install a newer driver" : "")};
}

void judge_gpu(const cuda::DeviceInfo& gpu, std::vector<Finding>& findings) {
  if (!gpu.problem.empty()) return findings.push_back(gpu_problem(gpu));
  const std::string where = concat("GPU ", gpu.index, " (", printable(gpu.name), "): ");
  if (gpu.code == cuda::Code::Ptx) {
    findings.push_back({Severity::Note,
                        concat(where, "this skald has no machine code for compute capability ",
                               capability_text(gpu.compute_capability),
                               ", so its first start compiles the kernels"),
                        concat("build with -DCMAKE_CUDA_ARCHITECTURES=", gpu.compute_capability,
                               " to avoid that; later starts use ~/.nv/ComputeCache")});
  }
  const int64_t used = gpu.total_bytes - gpu.free_bytes;
  if (used > gpu.total_bytes / 10 && used > int64_t{1} << 30) {  // CUDA itself takes some 0.5 GiB
    findings.push_back({Severity::Warning,
                        concat(where, size_text(used), " of its ", size_text(gpu.total_bytes),
                               " are in use, mostly by other programs"),
                        "nvidia-smi shows which programs use it"});
  }
}

void judge_cpu(const Facts& f, std::vector<Finding>& findings) {
  if (f.cgroup_cpus > 0 && std::ceil(f.cgroup_cpus) < f.threads) {
    char cpus[32];
    std::snprintf(cpus, sizeof cpus, "%.1f", f.cgroup_cpus);
    findings.push_back(
        {Severity::Warning,
         concat("skald would start ", f.threads,
                " CPU threads, but the control group allows the time of ", cpus, " CPUs"),
         concat("add -t ", static_cast<int>(std::ceil(f.cgroup_cpus)), " to the commands")});
  }
  if (f.simd.slow) {
    findings.push_back({Severity::Warning,
                        concat("the CPU runs the kernels for ", f.simd.chosen,
                               ", which are several times slower than those for wider vectors"),
                        "use a CPU with AVX2 or NEON; in a virtual machine, expose the host's CPU "
                        "features"});
  }
}

}  // namespace

std::string_view name(Severity severity) {
  constexpr std::string_view kNames[] = {"note", "warning", "problem"};
  return kNames[static_cast<int>(severity)];
}

int usable_gpu(const Facts& f) {
  for (const cuda::DeviceInfo& gpu : f.gpus) {
    if (gpu.problem.empty()) return gpu.index;
  }
  return -1;
}

bool expects_gpu(const Facts& f) { return gpu_in_machine(f) && !hidden(f); }

Finding why_no_gpu(const Facts& f) {
  const bool present = gpu_in_machine(f);
  const Severity expected = present ? Severity::Problem : Severity::Note;
  if (hidden(f) && f.gpus.empty()) return hidden_finding(f, expected);
  if (!f.cuda.built) {
    if (present) return unbuilt_finding(f);
    return {expected, "this skald was built without CUDA",
            "for a machine with a GPU, install the CUDA toolkit and build again"};
  }
  if (!f.gpus.empty()) return gpu_problem(f.gpus.front());
  if (!f.cuda.missing_library.empty()) return library_finding(f);
  if (const Finding cause = by_error(f); !cause.what.empty()) return cause;
  const bool nothing_open = f.device_nodes == 0 || !f.nodes_open;
  if (!f.container.empty() && f.device_nodes == 0 && !f.wsl) return by_container(f, expected);
  if (!f.slurm_job.empty() && !f.slurm_gpus) {
    return {expected, concat("this Slurm job (", printable(f.slurm_job), ") has no GPUs"),
            kAskSlurm};
  }
  if (f.slurm_host && f.slurm_job.empty() && (!present || nothing_open)) {
    return {expected, "this looks like a login node of a Slurm cluster, which has no usable GPU",
            "start a job, such as srun --gres=gpu:1 --pty skald doctor"};
  }
  if (present && !f.wsl && driver_broken(f)) return by_driver(f);
  if (present && f.visible_devices && f.cuda.error == "cudaErrorNoDevice") {
    const int count = std::max(f.device_nodes, f.pci_gpus);
    const std::string range = count > 1 ? concat("some of 0 to ", count - 1) : "0";
    return {Severity::Problem,
            concat("CUDA_VISIBLE_DEVICES is '", printable(*f.visible_devices),
                   "', which names no GPU of this machine"),
            concat("unset it, or set it to ", range, " (nvidia-smi -L lists the GPUs)")};
  }
  if (present) {
    return {Severity::Problem, f.cuda.problem,
            "nvidia-smi and dmesg may say more; a reboot often helps"};
  }
  return {Severity::Note, "this machine has no NVIDIA GPU", "skald runs on the CPU"};
}

std::vector<Finding> judge(const Facts& f) {
  std::vector<Finding> findings;
  for (const cuda::DeviceInfo& gpu : f.gpus) judge_gpu(gpu, findings);
  if (f.gpus.empty()) findings.push_back(why_no_gpu(f));
  if (f.visible_devices && !f.gpus.empty() &&
      listed_gpus(*f.visible_devices) > static_cast<int>(f.gpus.size())) {
    findings.push_back(
        {Severity::Warning,
         concat("CUDA_VISIBLE_DEVICES is '", printable(*f.visible_devices), "', but CUDA shows ",
                f.gpus.size(), ": CUDA stops at the first entry that does not exist"),
         "correct the list; nvidia-smi -L lists the GPUs"});
  }
  judge_cpu(f, findings);
  std::stable_sort(findings.begin(), findings.end(),
                   [](const Finding& a, const Finding& b) { return a.severity > b.severity; });
  return findings;
}

}  // namespace skald
