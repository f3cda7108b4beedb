#include "app/doctor/facts.h"

#include <fcntl.h>
#include <gnu/libc-version.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>

#include "app/files/folder.h"
#include "engine/base/error.h"
#include "engine/cpu/machine.h"

namespace skald {
namespace {

namespace fs = std::filesystem;

std::string first_word(const fs::path& path) {
  std::ifstream file(path);
  std::string word;
  file >> word;
  return word;
}

// Finds the first line that begins with `key` and returns what follows the key and its ':'.
std::string value_of(const fs::path& path, std::string_view key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key)) continue;
    const size_t from = line.find_first_not_of(" \t:", key.size());
    return from == std::string::npos ? "" : line.substr(from);
  }
  return "";
}

int64_t number_or(std::string_view text, int64_t fallback) {
  int64_t value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && rest != text.data() ? value : fallback;
}

// ---- GPUs ----

int count_pci_gpus(const fs::path& root) {
  int count = 0;
  std::error_code error;
  for (const auto& device : fs::directory_iterator(root / "sys/bus/pci/devices", error)) {
    // 0x03....: display controllers, with or without outputs
    count += first_word(device.path() / "vendor") == "0x10de" &&
             first_word(device.path() / "class").starts_with("0x03");
  }
  return count;
}

// Returns the first word with two numbers around a dot, from a line such as "NVRM version: NVIDIA
// UNIX x86_64 Kernel Module  580.82.07  Wed Aug ...".
std::string kernel_driver_version(const fs::path& root) {
  const std::string line = value_of(root / "proc/driver/nvidia/version", "NVRM version");
  for (size_t at = line.find_first_of("0123456789"); at < line.size();) {
    const size_t end = std::min(line.find_first_not_of("0123456789.", at), line.size());
    const bool word = at == 0 || line[at - 1] == ' ';
    const std::string number = line.substr(at, end - at);
    if (word && number.find('.') != std::string::npos) return number;
    at = line.find_first_of("0123456789", end);
  }
  return line.empty() ? "" : "unknown";
}

bool opens(const fs::path& path) {
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file >= 0) close(file);
  return file >= 0;
}

void gather_gpus(Facts& facts, const fs::path& root) {
  facts.pci_gpus = count_pci_gpus(root);
  facts.kernel_driver = kernel_driver_version(root);
  facts.uvm = is_there(root / "sys/module/nvidia_uvm");
  facts.nouveau = is_there(root / "sys/module/nouveau");
  facts.wsl = is_there(root / "dev/dxg") && is_there(root / "usr/lib/wsl/lib/libcuda.so.1");
  std::error_code error;
  for (const auto& node : fs::directory_iterator(root / "dev", error)) {
    const std::string name = node.path().filename().string();
    if (!name.starts_with("nvidia")) continue;
    const std::string rest = name.substr(6);
    const bool gpu = !rest.empty() && rest.find_first_not_of("0123456789") == std::string::npos;
    facts.device_nodes += gpu;
    if (gpu || rest == "ctl" || rest == "-uvm") {
      facts.nodes_open = facts.nodes_open && opens(node.path());
    }
  }
}

// ---- Container and job ----

std::string find_container(const fs::path& root, const Environment& environment) {
  if (is_there(root / "run/.containerenv")) return "podman";
  if (is_there(root / ".dockerenv")) return "docker";
  if (environment("APPTAINER_CONTAINER") || environment("SINGULARITY_CONTAINER")) {
    return "apptainer";
  }
  if (environment("KUBERNETES_SERVICE_HOST")) return "kubernetes";
  const std::string named = environment("container").value_or("");  // systemd's convention
  if (!named.empty()) return named;
  std::ifstream groups(root / "proc/1/cgroup");
  for (std::string line; std::getline(groups, line);) {
    for (const char* hint : {"docker", "kubepods", "containerd", "libpod", "lxc"}) {
      if (line.find(hint) != std::string::npos) return hint;
    }
  }
  return "";
}

void gather_slurm(Facts& facts, const fs::path& root, const Environment& environment) {
  facts.slurm_job = environment("SLURM_JOB_ID").value_or("");
  for (const char* name : {"SLURM_JOB_GPUS", "SLURM_STEP_GPUS", "SLURM_GPUS_ON_NODE", "SLURM_GPUS",
                           "SLURM_GPUS_PER_NODE", "SLURM_GPUS_PER_TASK"}) {
    const std::string value = environment(name).value_or("");
    facts.slurm_gpus = facts.slurm_gpus || (!value.empty() && value != "0");
  }
  for (const char* path : {"etc/slurm/slurm.conf", "etc/slurm-llnl/slurm.conf", "run/slurm/conf",
                           "usr/bin/srun", "usr/local/bin/srun", "opt/slurm/bin/srun"}) {
    facts.slurm_host = facts.slurm_host || is_there(root / path);
  }
  facts.slurm_host = facts.slurm_host || environment("SLURM_CONF").has_value();
}

// ---- CPU and memory ----

// Applies the limits of one control group. The limits of all groups up to the root count. cgroup v2
// has "max" or "quota period" in cpu.max; v1 has two files.
void apply_limits(Facts& facts, const fs::path& group) {
  double quota = 0, period = 0;
  std::ifstream two(group / "cpu.max");
  if (!(two >> quota >> period)) {
    quota = static_cast<double>(number_or(first_word(group / "cpu.cfs_quota_us"), 0));
    period = static_cast<double>(number_or(first_word(group / "cpu.cfs_period_us"), 0));
  }
  if (quota > 0 && period > 0 && (facts.cgroup_cpus == 0 || quota / period < facts.cgroup_cpus)) {
    facts.cgroup_cpus = quota / period;
  }
  for (const char* name : {"memory.max", "memory.limit_in_bytes"}) {
    const int64_t bytes = number_or(first_word(group / name), 0);
    const bool limits = bytes > 0 && bytes < facts.memory_bytes;  // in v1, 2^63 means no limit
    const bool tighter = facts.cgroup_memory_bytes == 0 || bytes < facts.cgroup_memory_bytes;
    if (limits && tighter) facts.cgroup_memory_bytes = bytes;
  }
}

void gather_cgroup(Facts& facts, const fs::path& root) {
  const fs::path mount = root / "sys/fs/cgroup";
  std::ifstream groups(root / "proc/self/cgroup");  // "0::/user.slice/x", "4:memory:/slurm/job_7"
  for (std::string line; std::getline(groups, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    fs::path base = mount;
    if (!controllers.empty()) base /= controllers == "cpuacct" ? "cpu,cpuacct" : controllers;
    fs::path path = fs::path(line.substr(second + 1)).relative_path();
    for (; !path.empty() && path != path.parent_path(); path = path.parent_path()) {
      apply_limits(facts, base / path);
    }
    apply_limits(facts, base);
  }
  apply_limits(facts, mount);  // in a container the paths above may be the host's
}

}  // namespace

void gather_cpu(Facts& facts, const fs::path& root) {
  facts.glibc = gnu_get_libc_version();
  facts.cpu_name = value_of(root / "proc/cpuinfo", "model name");
  facts.cores = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  facts.allowed_cores =
      sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : facts.cores;
  facts.threads = cpu::available_threads();
  facts.simd = cpu::find_simd();
  facts.memory_bytes = number_or(value_of(root / "proc/meminfo", "MemTotal"), 0) << 10;
  facts.available_bytes = number_or(value_of(root / "proc/meminfo", "MemAvailable"), 0) << 10;
  gather_cgroup(facts, root);
}

std::string cuda_version(int version) { return concat(version / 1000, ".", version % 1000 / 10); }

std::optional<std::string> process_environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? std::optional<std::string>(value) : std::nullopt;
}

Facts gather_surroundings(const fs::path& root, const Environment& environment) {
  Facts facts;
  gather_gpus(facts, root);
  facts.container = find_container(root, environment);
  facts.visible_devices = environment("CUDA_VISIBLE_DEVICES");
  gather_slurm(facts, root, environment);
  return facts;
}

Facts gather_facts() {
  Facts facts = gather_surroundings("/", process_environment);
  gather_cpu(facts, "/");
  facts.cuda = cuda::look_at_system();
  for (int i = 0; i < facts.cuda.devices; ++i) facts.gpus.push_back(cuda::look_at_device(i));
  return facts;
}

}  // namespace skald
