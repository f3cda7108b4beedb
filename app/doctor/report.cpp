#include "app/doctor/report.h"

#include <algorithm>
#include <cstdio>

#include "app/files/json.h"
#include "app/program/version.h"
#include "engine/base/counted.h"
#include "engine/base/error.h"
#include "engine/base/number_text.h"
#include "engine/base/printable.h"
#include "engine/base/size_text.h"

namespace skald {
namespace {

constexpr const char* kCompiler =
#ifdef __clang__
    "clang " __clang_version__;
#else
    "g++ " __VERSION__;
#endif

std::string rate_text(double bytes_per_second) {
  return number_text(bytes_per_second / 1e9, "%.1f") + " GB/s";
}

const char* code_text(cuda::Code code) {
  switch (code) {
    case cuda::Code::Native:
      return "native";
    case cuda::Code::Ptx:
      return "ptx";
    case cuda::Code::None:
      break;
  }
  return "none";
}

const char* sharing_text(cuda::Sharing sharing) {
  switch (sharing) {
    case cuda::Sharing::Exclusive:
      return "exclusive";
    case cuda::Sharing::Prohibited:
      return "prohibited";
    case cuda::Sharing::Shared:
      break;
  }
  return "default";
}

// True for a MIG instance, whose name holds its profile: "NVIDIA A100-SXM4-40GB MIG 1g.5gb".
bool is_mig(const cuda::DeviceInfo& gpu) { return gpu.name.find(" MIG ") != std::string::npos; }

std::string chosen_device(const Facts& facts) {
  const int gpu = usable_gpu(facts);
  return gpu < 0 ? "cpu" : concat("cuda:", gpu);
}

const cuda::Speeds* speeds_of(const DoctorReport& report, int index) {
  for (const GpuSpeeds& gpu : report.gpu_speeds) {
    if (gpu.index == index) return &gpu.speeds;
  }
  return nullptr;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += concat(text.empty() ? "" : " ", word);
  return text;
}

// One line of the report. `what` is the first column; empty for a continuation line.
std::string row(const std::string& what, const std::string& text) {
  constexpr size_t kColumn = 11;
  return what + std::string(kColumn - std::min(kColumn, what.size()), ' ') + text + "\n";
}

std::string cuda_text(const Facts& f) {
  if (!f.cuda.built) return row("CUDA", "not in this build");
  std::string driver = "no driver";
  if (f.cuda.driver_version > 0) {
    driver = concat("the driver supports CUDA ", cuda_version(f.cuda.driver_version));
  }
  if (!f.kernel_driver.empty()) driver += concat(" (version ", printable(f.kernel_driver), ")");
  return row("CUDA", concat("built with ", f.cuda.toolkit, ", runtime ",
                            cuda_version(f.cuda.runtime_version), "; ", driver)) +
         row("", "code for " + f.cuda.architectures);
}

std::string gpu_text(const cuda::DeviceInfo& gpu, const cuda::Speeds* speeds) {
  const char* const kernels[] = {"machine code in the binary", "kernels compiled at first start",
                                 "no kernels in the binary"};
  std::string text =
      row(concat("GPU ", gpu.index),
          concat(printable(gpu.name), is_mig(gpu) ? " (MIG instance)" : "", ", compute capability ",
                 gpu.compute_capability / 10, ".", gpu.compute_capability % 10, ": ",
                 kernels[static_cast<int>(gpu.code)]));
  text += row("", concat(gpu.multiprocessors, " multiprocessors, ", size_text(gpu.total_bytes),
                         ", ", size_text(gpu.free_bytes), " free", gpu.ecc ? ", ECC" : "",
                         gpu.sharing == cuda::Sharing::Shared
                             ? ""
                             : concat(", compute mode ", sharing_text(gpu.sharing))));
  if (speeds) {
    text += row("", concat("reads ", rate_text(speeds->read), ", copies ", rate_text(speeds->copy),
                           " (bytes read plus written)"));
    text += row("", concat("from the host ", rate_text(speeds->from_host), ", to the host ",
                           rate_text(speeds->to_host)));
  }
  return text;
}

std::string exchange_text(const SharedSpeeds& shared) {
  const cuda::ExchangeSpeeds& speeds = shared.speeds;
  std::string gpus;
  for (const int gpu : shared.gpus) gpus += concat(gpus.empty() ? "" : ", ", gpu);
  return row("GPUs", concat(gpus, " reach ",
                            speeds.nvlink   ? "each other's memory over NVLink"
                            : speeds.direct ? "each other's memory over PCIe"
                                            : "one another through the host's memory",
                            " (--tp ", shared.gpus.size(), ")")) +
         row("", concat("a sum of 8 KB takes ", number_text(speeds.seconds_few * 1e6, "%.1f"),
                        " us; long sums move ", rate_text(speeds.bytes_per_second)));
}

std::string cpu_text(const Facts& f, double read) {
  std::string limit;
  if (f.cgroup_cpus > 0) limit = concat(", control group: ", number_text(f.cgroup_cpus, "%.1f"));
  std::string text =
      row("CPU", concat(f.cpu_name.empty() ? "unknown" : printable(f.cpu_name), ", ",
                        counted(f.cores, "thread"), ", ", f.allowed_cores, " allowed", limit,
                        "; skald uses ", f.threads)) +
      row("", concat("kernels for ", f.simd.chosen, "; built for ", joined(f.simd.compiled)));
  if (read > 0) text += row("", "reads " + rate_text(read));
  text += row("memory",
              concat(size_text(f.memory_bytes), ", ", size_text(f.available_bytes), " available",
                     f.cgroup_memory_bytes > 0
                         ? ", control group: at most " + size_text(f.cgroup_memory_bytes)
                         : ""));
  return text;
}

Json or_null(bool known, const Json& value) { return known ? value : Json(nullptr); }

Json gpu_json(const cuda::DeviceInfo& gpu, const cuda::Speeds* speeds) {
  Json json = {
      {"index", gpu.index},
      {"name", gpu.name},
      {"compute_capability", concat(gpu.compute_capability / 10, ".", gpu.compute_capability % 10)},
      {"code", code_text(gpu.code)},
      {"multiprocessors", gpu.multiprocessors},
      {"memory_bytes", gpu.total_bytes},
      {"free_bytes", gpu.free_bytes},
      {"ecc", gpu.ecc},
      {"mig", is_mig(gpu)},
      {"compute_mode", sharing_text(gpu.sharing)},
      {"usable", gpu.problem.empty()},
      {"problem", or_null(!gpu.problem.empty(), gpu.problem)}};
  if (speeds) {
    json["read_bytes_per_second"] = speeds->read;
    json["copy_bytes_per_second"] = speeds->copy;
    json["from_host_bytes_per_second"] = speeds->from_host;
    json["to_host_bytes_per_second"] = speeds->to_host;
  }
  return json;
}

Json cuda_json(const Facts& f) {
  const cuda::System& cuda = f.cuda;
  return {{"built", cuda.built},
          {"toolkit", or_null(cuda.built, cuda.toolkit)},
          {"architectures", or_null(cuda.built, cuda.architectures)},
          {"runtime", or_null(cuda.built, cuda_version(cuda.runtime_version))},
          {"driver_cuda", or_null(cuda.driver_version > 0, cuda_version(cuda.driver_version))},
          {"driver", or_null(!f.kernel_driver.empty(), f.kernel_driver)},
          {"error", or_null(!cuda.error.empty(), cuda.error)}};
}

}  // namespace

std::string to_text(const DoctorReport& report) {
  const Facts& f = report.facts;
  std::string text = row(
      "skald", concat(version(), ", commit ", git_commit(), ", ", kCompiler, ", glibc ", f.glibc));
  text += cuda_text(f);
  for (const cuda::DeviceInfo& gpu : f.gpus) text += gpu_text(gpu, speeds_of(report, gpu.index));
  if (report.exchange) text += exchange_text(*report.exchange);
  text += cpu_text(f, report.cpu_read);
  if (!f.container.empty()) text += row("container", printable(f.container));
  if (!f.slurm_job.empty()) text += row("Slurm job", printable(f.slurm_job));
  text += row("runs on", chosen_device(f));
  for (const Finding& finding : report.findings) {
    text += concat("\n", name(finding.severity), ": ", finding.what, "\n  ", finding.advice, "\n");
  }
  return text;
}

Json to_json(const DoctorReport& report) {
  const Facts& f = report.facts;
  Json gpus = Json::array(), findings = Json::array();
  for (const cuda::DeviceInfo& gpu : f.gpus) {
    gpus.push_back(gpu_json(gpu, speeds_of(report, gpu.index)));
  }
  for (const Finding& finding : report.findings) {
    findings.push_back(
        {{"severity", name(finding.severity)}, {"what", finding.what}, {"advice", finding.advice}});
  }
  Json cpu = {{"name", f.cpu_name},
              {"threads", f.cores},
              {"allowed_threads", f.allowed_cores},
              {"cgroup_cpus", or_null(f.cgroup_cpus > 0, f.cgroup_cpus)},
              {"skald_threads", f.threads},
              {"simd", f.simd.chosen},
              {"simd_compiled", f.simd.compiled}};
  if (report.cpu_read > 0) cpu["read_bytes_per_second"] = report.cpu_read;
  Json exchange;
  if (report.exchange) {
    const cuda::ExchangeSpeeds& speeds = report.exchange->speeds;
    exchange = {{"gpus", report.exchange->gpus},
                {"direct", speeds.direct},
                {"nvlink", speeds.nvlink},
                {"seconds_of_8_kb", speeds.seconds_few},
                {"bytes_per_second", speeds.bytes_per_second}};
  }
  return {{"version", version()},
          {"commit", git_commit()},
          {"compiler", kCompiler},
          {"glibc", f.glibc},
          {"device", chosen_device(f)},
          {"cuda", cuda_json(f)},
          {"gpus", gpus},
          {"exchange", exchange},
          {"cpu", cpu},
          {"memory",
           {{"bytes", f.memory_bytes},
            {"available_bytes", f.available_bytes},
            {"cgroup_bytes", or_null(f.cgroup_memory_bytes > 0, f.cgroup_memory_bytes)}}},
          {"environment",
           {{"container", or_null(!f.container.empty(), f.container)},
            {"slurm_job", or_null(!f.slurm_job.empty(), f.slurm_job)},
            {"cuda_visible_devices",
             or_null(f.visible_devices.has_value(), f.visible_devices.value_or(""))},
            {"pci_gpus", f.pci_gpus},
            {"device_nodes", f.device_nodes}}},
          {"findings", findings}};
}

}  // namespace skald
