// Findings for each fault that a machine can have. The facts are written by hand.
#include "app/doctor/findings.h"

#include "tests/catch.h"
#include "tests/error_text.h"

namespace skald::test {
namespace {

cuda::DeviceInfo good_gpu() {
  cuda::DeviceInfo gpu;
  gpu.name = "NVIDIA H200";
  gpu.compute_capability = 90;
  gpu.total_bytes = int64_t{140} << 30;
  gpu.free_bytes = int64_t{139} << 30;
  gpu.code = cuda::Code::Native;
  return gpu;
}

// A machine outside containers and Slurm, with a GPU, its driver, and a skald built with CUDA 13.0.
Facts good_machine() {
  Facts f;
  f.cuda = {true, "13.0.88", "75-virtual 80-real 90a-real", 13000, 13000, 1, "", ""};
  f.gpus = {good_gpu()};
  f.pci_gpus = 1;
  f.kernel_driver = "580.82.07";
  f.uvm = true;
  f.device_nodes = 1;
  f.cores = f.allowed_cores = f.threads = 16;
  return f;
}

Facts without_gpus(const std::string& error, const std::string& problem = "CUDA's own words") {
  Facts f = good_machine();
  f.gpus.clear();
  f.cuda.devices = 0;
  f.cuda.error = error;
  f.cuda.problem = problem;
  return f;
}

// A machine without GPU and driver.
Facts cpu_machine() {
  Facts f = without_gpus("cudaErrorInsufficientDriver");
  f.pci_gpus = f.device_nodes = 0;
  f.kernel_driver = "";
  f.uvm = false;
  f.cuda.driver_version = 0;
  return f;
}

void check_only(const Facts& facts, Severity severity, const std::string& what,
                const std::string& advice) {
  const std::vector<Finding> findings = judge(facts);
  REQUIRE(findings.size() == 1);
  CAPTURE(findings[0].what, findings[0].advice);
  CHECK(findings[0].severity == severity);
  CHECK(has(findings[0].what, what));
  CHECK(has(findings[0].advice, advice));
}

TEST_CASE("a machine whose GPU works has no findings, in a container and in Slurm too") {
  CHECK(judge(good_machine()).empty());
  Facts f = good_machine();
  f.container = "docker";
  f.slurm_job = "17";
  f.slurm_gpus = true;
  f.visible_devices = "0";
  CHECK(judge(f).empty());
  CHECK(usable_gpu(f) == 0);
}

TEST_CASE("a machine without a GPU gets a note only") {
  check_only(cpu_machine(), Severity::Note, "no NVIDIA GPU", "runs on the CPU");
  CHECK(usable_gpu(cpu_machine()) == -1);
  CHECK(!expects_gpu(cpu_machine()));
}

TEST_CASE("a build without CUDA is a problem only in a machine with a GPU") {
  Facts f = cpu_machine();
  f.cuda = {};
  check_only(f, Severity::Note, "built without CUDA", "build again");
  f.pci_gpus = 1;
  check_only(f, Severity::Problem, "this machine has an NVIDIA GPU", "toolkit");
}

TEST_CASE("what a build without CUDA lacked is named, with the command that mends it") {
  Facts f = good_machine();  // driver 580: CUDA 13
  f.gpus.clear();
  f.cuda = {};
  check_only(f, Severity::Problem, "built without CUDA", "run scripts/toolkit");
  f.nvcc = "/usr/local/cuda/bin/nvcc";
  f.nvcc_version = "13.0";
  check_only(f, Severity::Problem, "built without CUDA",
             "scripts/run doctor in skald's source folder: it builds for the GPU with nvcc 13.0");
  f.nvcc_problem =
      "error: -- unsupported GNU version! gcc versions later than 12 are not supported!";
  check_only(
      f, Severity::Problem,
      "nvcc 13.0 (/usr/local/cuda/bin/nvcc) does not work with this g++ and C library: error: "
      "-- unsupported GNU version",
      "run scripts/toolkit");
}

TEST_CASE(
    "a toolkit that is newer than the driver is named, and a driver that is too old for any") {
  Facts f = good_machine();
  f.gpus.clear();
  f.cuda = {};
  f.kernel_driver = "535.104.05";
  check_only(f, Severity::Problem, "built without CUDA", "module load cuda/12");
  f.nvcc = "/opt/nvcc";
  f.nvcc_version = "13.0";
  check_only(
      f, Severity::Problem,
      "nvcc 13.0 (/opt/nvcc) makes programs that the driver (version 535.104.05, CUDA 12) does "
      "not run",
      "module load cuda/12");
  f.nvcc_version = "12.4";
  check_only(f, Severity::Problem, "built without CUDA", "builds for the GPU with nvcc 12.4");
  f.kernel_driver = "470.57.02";
  check_only(f, Severity::Problem, "(version 470.57.02) is too old for CUDA 12", "525 or newer");
}

TEST_CASE("a missing cuBLAS is named, and where it comes from") {
  Facts f = without_gpus("", "a library of CUDA cannot be loaded: libcublasLt.so.13: no such file");
  f.cuda.missing_library = "libcublasLt.so.13";
  check_only(f, Severity::Problem, "libcublasLt.so.13: no such file", "package libcublas-13-0;");
  CHECK(has(judge(f)[0].advice, "scripts/toolkit"));
  CHECK(usable_gpu(f) == -1);
}

TEST_CASE("an old driver is reported with both versions and three remedies") {
  Facts f = without_gpus("cudaErrorInsufficientDriver");
  f.cuda.driver_version = 12020;
  f.kernel_driver = "535.104.05";
  check_only(f, Severity::Problem, "(version 535.104.05) is too old: it supports CUDA 12.2",
             "cuda-compat-13-0");
  CHECK(has(judge(f)[0].what, "needs CUDA 13.0"));
  CHECK(has(judge(f)[0].advice, "with a toolkit of CUDA 12"));
  f.cuda.driver_version = 11080;
  CHECK(!has(judge(f)[0].advice, "build skald"));
  f.container = "docker";  // the same driver, seen from inside a container
  f.device_nodes = 0;
  check_only(f, Severity::Problem, "is too old", "newer driver");
}

TEST_CASE("CUDA's own errors about drivers get an explanation and advice") {
  check_only(without_gpus("cudaErrorSystemDriverMismatch"), Severity::Problem, "different versions",
             "reboot");
  check_only(without_gpus("cudaErrorCompatNotSupportedOnDevice"), Severity::Problem, "cuda-compat",
             "LD_LIBRARY_PATH");
  check_only(without_gpus("cudaErrorSystemNotReady"), Severity::Problem, "NVSwitch",
             "nvidia-fabricmanager");
  check_only(without_gpus("cudaErrorStubLibrary"), Severity::Problem, "stub", "stubs");
  check_only(without_gpus("cudaErrorUnknown", "CUDA does not start: unknown error"),
             Severity::Problem, "CUDA does not start: unknown error", "dmesg");
}

TEST_CASE("advice for a container without GPU devices is how to start it with them") {
  Facts f = without_gpus("cudaErrorInsufficientDriver");
  f.cuda.driver_version = 0;
  f.container = "docker";
  f.device_nodes = 0;
  check_only(f, Severity::Problem, "in this container (docker)", "--gpus all");
  f.container = "podman";
  check_only(f, Severity::Problem, "/dev/nvidia*", "--device nvidia.com/gpu=all");
  f.container = "apptainer";
  check_only(f, Severity::Problem, "/dev/nvidia*", "--nv");
  f.container = "kubepods";
  check_only(f, Severity::Problem, "/dev/nvidia*", "nvidia.com/gpu: 1");
  Facts none = cpu_machine();
  none.container = "docker";
  check_only(none, Severity::Note, "in this container", "if the host has a GPU, start");
}

TEST_CASE(
    "in a container with devices but without libcuda.so.1, the advice is NVIDIA's container "
    "toolkit") {
  Facts f = without_gpus("cudaErrorInsufficientDriver");
  f.cuda.driver_version = 0;
  f.container = "docker";
  check_only(f, Severity::Problem, "libcuda.so.1", "NVIDIA_DRIVER_CAPABILITIES");
  f.container = "";
  check_only(f, Severity::Problem, "libcuda.so.1", "libcuda1");
}

TEST_CASE("advice for a Slurm job without GPUs is to request one") {
  Facts f = without_gpus("cudaErrorNoDevice");
  f.slurm_job = "4711";
  check_only(f, Severity::Problem, "Slurm job (4711) has no GPUs", "--gres=gpu:1");
  f.visible_devices = "";
  check_only(f, Severity::Problem, "Slurm job (4711) has no GPUs", "--gres=gpu:1");
  f.visible_devices = "NoDevFiles";
  check_only(f, Severity::Problem, "NoDevFiles", "--gres=gpu:1");
  Facts cpu_node = cpu_machine();
  cpu_node.slurm_job = "4711";
  check_only(cpu_node, Severity::Note, "has no GPUs", "--gres=gpu:1");
}

TEST_CASE("a login node is recognized, and a compute node is not taken for one") {
  Facts f = cpu_machine();
  f.slurm_host = true;
  check_only(f, Severity::Note, "login node", "srun --gres=gpu:1 --pty skald doctor");
  f.slurm_job = "1";
  f.slurm_gpus = true;
  check_only(f, Severity::Note, "no NVIDIA GPU", "");
  Facts closed = without_gpus("cudaErrorNoDevice");
  closed.slurm_host = true;
  closed.nodes_open = false;
  check_only(closed, Severity::Problem, "login node", "srun");
}

TEST_CASE("GPUs hidden on purpose are a note, and skald does not expect a GPU then") {
  for (const char* list : {"", " ", "-1", "NoDevFiles"}) {
    Facts f = without_gpus("cudaErrorNoDevice");
    f.visible_devices = list;
    check_only(f, Severity::Note, "which hides all GPUs", "unset it");
    CHECK(!expects_gpu(f));
  }
  CHECK(expects_gpu(good_machine()));
}

TEST_CASE(
    "for a CUDA_VISIBLE_DEVICES that names no GPU, the advice lists the GPUs of the machine") {
  Facts f = without_gpus("cudaErrorNoDevice");
  f.visible_devices = "7";
  f.pci_gpus = f.device_nodes = 4;
  check_only(f, Severity::Problem, "'7', which names no GPU of this machine", "0 to 3");
  CHECK(expects_gpu(f));
  Facts half = good_machine();
  half.visible_devices = "0,9,1";
  check_only(half, Severity::Warning, "CUDA shows 1", "nvidia-smi -L");
}

TEST_CASE("a missing driver, or a missing part of it, is named") {
  Facts f = cpu_machine();
  f.pci_gpus = 1;
  check_only(f, Severity::Problem, "no NVIDIA driver is loaded", "modprobe nvidia");
  f.nouveau = true;
  check_only(f, Severity::Problem, "nouveau uses the GPU", "install the driver");
  Facts nodes = without_gpus("cudaErrorNoDevice");
  nodes.device_nodes = 0;
  check_only(nodes, Severity::Problem, "/dev/nvidia0 is missing", "nvidia-modprobe");
  Facts closed = without_gpus("cudaErrorNoDevice");
  closed.nodes_open = false;
  check_only(closed, Severity::Problem, "may not open /dev/nvidia*", "group");
  Facts uvm = without_gpus("cudaErrorUnknown");
  uvm.uvm = false;
  check_only(uvm, Severity::Problem, "nvidia_uvm", "modprobe");
}

TEST_CASE(
    "for a GPU that the build does not support, the advice names the architecture to build for") {
  Facts f = good_machine();
  f.gpus[0].compute_capability = 61;
  f.gpus[0].code = cuda::Code::None;
  f.gpus[0].problem = "this skald holds no code for it";
  check_only(f, Severity::Problem, "compute capability 6.1 is older than 7.5",
             "use another GPU, or the CPU");
  f.gpus[0].compute_capability = 86;
  check_only(f, Severity::Problem, "this skald holds no code", "-DCMAKE_CUDA_ARCHITECTURES=86");
  f.gpus[0].code = cuda::Code::Ptx;
  check_only(f, Severity::Problem, "", "newer driver");
  f.gpus[0].problem = "";
  f.gpus[0].compute_capability = 120;
  check_only(f, Severity::Note, "compute capability 12.0, so its first start compiles",
             "ComputeCache");
}

TEST_CASE("a busy or unavailable GPU is reported with the cause") {
  Facts f = good_machine();
  f.gpus[0].problem = "CUDA does not start on it";
  f.gpus[0].error = "cudaErrorDevicesUnavailable";
  check_only(f, Severity::Problem, "GPU 0 (NVIDIA H200): it is busy", "nvidia-smi");
  f.gpus[0].sharing = cuda::Sharing::Exclusive;
  check_only(f, Severity::Problem, "'exclusive'", "CUDA_VISIBLE_DEVICES");
  f.gpus[0].sharing = cuda::Sharing::Prohibited;
  check_only(f, Severity::Problem, "'prohibited'", "nvidia-smi -c DEFAULT");
  f.gpus[0].sharing = cuda::Sharing::Shared;
  f.gpus[0].error = "cudaErrorMemoryAllocation";
  check_only(f, Severity::Problem, "memory is full", "nvidia-smi");
  f.gpus[0].error = "cudaErrorECCUncorrectable";
  check_only(f, Severity::Problem, "CUDA does not start on it", "reset");
}

TEST_CASE("GPU memory in use is a warning, unless CUDA itself may use that much") {
  Facts f = good_machine();
  f.gpus[0].free_bytes = int64_t{100} << 30;
  check_only(f, Severity::Warning, "40.00 GiB of its 140.00 GiB are in use", "nvidia-smi");
  f.gpus[0].total_bytes = int64_t{8} << 30;  // a small GPU; CUDA itself may use 0.9 GiB
  f.gpus[0].free_bytes = (int64_t{7} << 30) + (int64_t{100} << 20);
  CHECK(judge(f).empty());
}

TEST_CASE("one broken GPU does not hide the next, and problems come before warnings") {
  Facts f = good_machine();
  f.gpus.push_back(good_gpu());
  f.gpus[1].index = 1;
  f.gpus[0].error = "cudaErrorECCUncorrectable";
  f.gpus[0].problem = "CUDA does not start on it: uncorrectable";
  f.gpus[1].free_bytes = 0;
  CHECK(usable_gpu(f) == 1);
  const std::vector<Finding> findings = judge(f);
  REQUIRE(findings.size() == 2);
  CHECK(findings[0].severity == Severity::Problem);
  CHECK(findings[1].severity == Severity::Warning);
}

TEST_CASE("a CPU quota below the number of skald's threads is a warning that names the right -t") {
  Facts f = good_machine();
  f.cgroup_cpus = 2.5;
  check_only(f, Severity::Warning, "16 CPU threads, but the control group allows the time of 2.5",
             "-t 3");
  f.threads = 3;
  CHECK(judge(f).empty());
  f.simd.slow = true;
  f.simd.chosen = "EMU128";
  check_only(f, Severity::Warning, "EMU128", "AVX2");
}

TEST_CASE("a finding escapes control characters in quoted text") {
  Facts f = without_gpus("cudaErrorNoDevice");
  f.visible_devices = "\x1b[31m";
  const Finding finding = judge(f).front();
  CHECK(finding.what.find('\x1b') == std::string::npos);
}

}  // namespace
}  // namespace skald::test
