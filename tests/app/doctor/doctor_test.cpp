// Facts read from a folder that imitates a machine's /sys, /proc and /dev; and the output of
// `doctor`.
#include <sys/utsname.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "app/doctor/facts.h"
#include "app/doctor/toolkit.h"
#include "tests/catch.h"
#include "tests/error_text.h"
#include "tests/process.h"
#include "tests/temp_folder.h"

namespace skald::test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using Variables = std::map<std::string, std::string>;

void put_pci(const fs::path& root, const std::string& name, const std::string& vendor,
             const std::string& kind) {
  put_file(root / "sys/bus/pci/devices" / name / "vendor", vendor + "\n");
  put_file(root / "sys/bus/pci/devices" / name / "class", kind + "\n");
}

Facts gather(const fs::path& root, const Variables& variables = {}) {
  Facts facts = gather_surroundings(root, [&](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  });
  gather_cpu(facts, root);
  return facts;
}

TEST_CASE("a machine without any files has no facts and is no error") {
  const TempFolder folder;
  const Facts f = gather(folder.path());
  CHECK(f.pci_gpus == 0);
  CHECK(f.device_nodes == 0);
  CHECK(f.kernel_driver == "");
  CHECK(f.container == "");
  CHECK(!f.visible_devices);
  CHECK(f.memory_bytes == 0);
  CHECK(f.cgroup_cpus == 0);
  CHECK(f.threads > 0);
  CHECK(!f.simd.chosen.empty());
  CHECK(!f.simd.compiled.empty());
}

TEST_CASE("GPUs and drivers are found in /sys, /proc and /dev") {
  const TempFolder folder;
  const fs::path& root = folder.path();
  put_pci(root, "0000:01:00.0", "0x10de", "0x030200");
  put_pci(root, "0000:01:00.1", "0x10de", "0x040300");  // the card's audio device
  put_pci(root, "0000:02:00.0", "0x8086", "0x030000");  // another vendor's GPU
  put_pci(root, "0000:03:00.0", "0x10de", "0x030000");
  put_file(root / "proc/driver/nvidia/version",
           "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 2023\nGCC "
           "version:\n");
  for (const char* node :
       {"nvidia0", "nvidia1", "nvidia10", "nvidiactl", "nvidia-uvm", "nvidia-caps", "null"}) {
    put_file(root / "dev" / node);
  }
  fs::create_directories(root / "sys/module/nvidia_uvm");
  const Facts f = gather(root);
  CHECK(f.pci_gpus == 2);
  CHECK(f.kernel_driver == "535.104.05");
  CHECK(f.device_nodes == 3);
  CHECK(f.nodes_open);
  CHECK(f.uvm);
  CHECK(!f.nouveau);
}

TEST_CASE("the open kernel module's version is read too") {
  const TempFolder folder;
  put_file(folder.path() / "proc/driver/nvidia/version",
           "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.82.07  Release Build\n");
  CHECK(gather(folder.path()).kernel_driver == "580.82.07");
}

TEST_CASE("a container is recognized by its files and variables") {
  const TempFolder docker, podman, pod, plain;
  put_file(docker.path() / ".dockerenv");
  put_file(podman.path() / "run/.containerenv");
  put_file(pod.path() / "proc/1/cgroup", "0::/kubepods.slice/pod7\n");
  CHECK(gather(docker.path()).container == "docker");
  CHECK(gather(podman.path()).container == "podman");
  CHECK(gather(pod.path()).container == "kubepods");
  CHECK(gather(plain.path(), {{"APPTAINER_CONTAINER", "x.sif"}}).container == "apptainer");
  CHECK(gather(plain.path(), {{"container", "lxc"}}).container == "lxc");
}

TEST_CASE("a Slurm job and its GPUs are read from the environment") {
  const TempFolder folder;
  const Facts none = gather(folder.path(), {{"SLURM_JOB_ID", "12"}, {"SLURM_GPUS_ON_NODE", "0"}});
  CHECK(none.slurm_job == "12");
  CHECK(!none.slurm_gpus);
  CHECK(gather(folder.path(), {{"SLURM_JOB_ID", "12"}, {"SLURM_JOB_GPUS", "0,1"}}).slurm_gpus);
  CHECK(gather(folder.path(), {{"CUDA_VISIBLE_DEVICES", ""}}).visible_devices == "");
  CHECK(!gather(folder.path()).slurm_host);
  put_file(folder.path() / "etc/slurm/slurm.conf");
  CHECK(gather(folder.path()).slurm_host);
}

TEST_CASE("limits of control groups are the lowest along the path, in version 2 and version 1") {
  const TempFolder two, one;
  for (const TempFolder* folder : {&two, &one}) {
    put_file(folder->path() / "proc/meminfo",
             "MemTotal:  67108864 kB\nMemAvailable: 33554432 kB\n");
  }
  put_file(two.path() / "proc/self/cgroup", "0::/slurm/job_1/step_0\n");
  put_file(two.path() / "sys/fs/cgroup/slurm/job_1/cpu.max", "150000 100000\n");
  put_file(two.path() / "sys/fs/cgroup/slurm/job_1/step_0/cpu.max", "max 100000\n");
  put_file(two.path() / "sys/fs/cgroup/slurm/job_1/memory.max", "8589934592\n");
  put_file(two.path() / "sys/fs/cgroup/slurm/job_1/step_0/memory.max", "max\n");
  const Facts f = gather(two.path());
  CHECK(f.cgroup_cpus == 1.5);
  CHECK(f.cgroup_memory_bytes == int64_t{8} << 30);
  CHECK(f.memory_bytes == int64_t{64} << 30);
  CHECK(f.available_bytes == int64_t{32} << 30);

  put_file(one.path() / "proc/self/cgroup", "4:memory:/job\n2:cpu,cpuacct:/job\n");
  put_file(one.path() / "sys/fs/cgroup/memory/job/memory.limit_in_bytes", "4294967296\n");
  put_file(one.path() / "sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  put_file(one.path() / "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "400000\n");
  put_file(one.path() / "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
  put_file(one.path() / "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  const Facts g = gather(one.path());
  CHECK(g.cgroup_cpus == 4);
  CHECK(g.cgroup_memory_bytes == int64_t{4} << 30);
}

// An nvcc in a folder of the PATH that says its version, and takes or refuses what it is to
// compile.
Facts with_nvcc(const fs::path& root, const std::string& compiles) {
  put_file(root / "bin/nvcc",
           "#!/bin/sh\nif [ \"$1\" = --version ]; then echo 'Cuda compilation tools, release 12.2, "
           "V12.2.140'; exit; fi\n" +
               compiles + "\n");
  fs::permissions(root / "bin/nvcc", fs::perms::owner_all);
  Facts facts;
  gather_toolkit(facts, [&](const char* name) -> std::optional<std::string> {
    if (std::string(name) == "PATH") return "/nonexistent:" + (root / "bin").string();
    return std::nullopt;
  });
  return facts;
}

TEST_CASE("the nvcc that a build would take is found, tried, and its error is read") {
  const TempFolder folder;
  const Facts good = with_nvcc(folder.path(), "exit 0");
  CHECK(good.nvcc == (folder.path() / "bin/nvcc").string());
  CHECK(good.nvcc_version == "12.2");
  CHECK(good.nvcc_problem == "");
  const Facts bad = with_nvcc(
      folder.path(),
      "echo In file included from x; echo 'x.h: #error -- unsupported GNU version!'; exit 1");
  CHECK(bad.nvcc_problem == "x.h: #error -- unsupported GNU version!");
  CHECK(with_nvcc(folder.path(), "exit 3").nvcc_problem == "it fails without a word");
}

// A toolkit as scripts/toolkit installs it below `cache`; returns its nvcc.
fs::path put_toolkit(const fs::path& cache) {
  utsname machine = {};
  REQUIRE(uname(&machine) == 0);
  const fs::path nvcc = cache / "cuda" / machine.machine / "nvidia/cu13/bin/nvcc";
  put_file(nvcc, "#!/bin/sh\necho release 13.0,\n");
  fs::permissions(nvcc, fs::perms::owner_all);
  return nvcc;
}

// The facts for a machine with that XDG_CACHE_HOME and that place for users without a cache.
Facts with_caches(const fs::path& usual, const fs::path& spare) {
  Facts facts;
  gather_toolkit(
      facts,
      [&](const char* name) -> std::optional<std::string> {
        if (std::string(name) == "XDG_CACHE_HOME") return usual.string();
        return std::nullopt;
      },
      spare);
  return facts;
}

TEST_CASE("the toolkit of scripts/toolkit is found before the PATH's, as the build does") {
  const TempFolder folder;
  const fs::path cache = folder.path() / "cache";
  const fs::path nvcc = put_toolkit(cache / "skald");
  const Facts facts = with_caches(cache, folder.path() / "spare");
  CHECK(facts.nvcc == nvcc.string());
  CHECK(facts.nvcc_version == "13.0");
  // The scripts put it there.
  CHECK(has(read_file(source_dir() / "scripts/setup.sh"),
            "toolkit=$cache/cuda/$(uname -m)/nvidia/cu13\n"));
}

TEST_CASE("the toolkit of a user without a home is found, but only in a folder of that user") {
  const TempFolder folder;
  put_file(folder.path() / "file");
  const fs::path none = folder.path() / "file" / "cache";  // not even root can make that folder
  const fs::path spare = folder.path() / "spare";
  const std::string nvcc = put_toolkit(spare).string();
  const auto set_mode = [&](int mode) { fs::permissions(spare, fs::perms(mode)); };
  set_mode(0700);
  CHECK(with_caches(none, spare).nvcc == nvcc);
  CHECK(with_caches(folder.path() / "cache", spare).nvcc != nvcc);  // a cache could be made
  set_mode(0777);
  CHECK(with_caches(none, spare).nvcc != nvcc);
  set_mode(0700);
  const fs::path link = folder.path() / "link";
  fs::create_directory_symlink(spare, link);
  CHECK(!with_caches(none, link).nvcc.starts_with(link.string()));
  CHECK(with_caches(folder.path() / "file", spare).nvcc == nvcc);
  CHECK(spare_cache() == "/var/tmp/skald-" + std::to_string(getuid()));
  CHECK(has(read_file(source_dir() / "scripts/setup.sh"), "\"/var/tmp/skald-$UID\"\n"));
}

TEST_CASE("doctor reports the machine as text and as JSON") {
  const Outcome text = skald({"doctor", "--quick"});
  CHECK(text.code == 0);  // the tests hide all GPUs
  CHECK(text.err == "");
  for (const char* part : {"skald      ", "CUDA       ", "CPU        ", "memory     ",
                           "runs on    cpu", "kernels for "}) {
    CAPTURE(part);
    CHECK(has(text.out, part));
  }
  const Outcome outcome = skald({"doctor", "--quick", "--json"});
  CHECK(outcome.code == 0);
  const Json json = Json::parse(outcome.out);
  CHECK(json["device"] == "cpu");
  CHECK(json["version"].is_string());
  CHECK(json["glibc"].get<std::string>().starts_with("2."));
  CHECK(json["cuda"]["built"].is_boolean());
  CHECK(json["gpus"].is_array());
  CHECK(json["cpu"]["skald_threads"] > 0);
  CHECK(json["cpu"]["allowed_threads"] > 0);
  CHECK(json["cpu"]["simd_compiled"].size() > 1);
  CHECK(!json["cpu"].contains("read_bytes_per_second"));
  CHECK(json["memory"]["bytes"] > 0);
  CHECK(json["environment"]["cuda_visible_devices"] == "");
  for (const Json& finding : json["findings"]) {
    CHECK(finding["severity"].is_string());
    CHECK(!finding["what"].get<std::string>().empty());
    CHECK(!finding["advice"].get<std::string>().empty());
  }
}

TEST_CASE("doctor names the variable that hides the GPUs, and the Slurm job without GPUs") {
  const Outcome hidden = skald({"doctor", "--quick"});
  CHECK(has(hidden.out, "note: CUDA_VISIBLE_DEVICES is '', which hides all GPUs\n  unset it"));
  const Outcome job = run_program({{"doctor", "--quick"}, "", {{"SLURM_JOB_ID", "99"}}});
  CHECK(has(job.out, "this Slurm job (99) has no GPUs"));
  CHECK(has(job.out, "--gres=gpu:1"));
}

TEST_CASE("doctor measures the CPU's memory") {
  const Json json = Json::parse(skald({"doctor", "--json"}).out);
  const bool unmeasurable = has(json["findings"].dump(), "could not be measured");
  CHECK((unmeasurable || json["cpu"]["read_bytes_per_second"] > 1e8));
}

}  // namespace
}  // namespace skald::test
