// skald doctor: reports this machine's GPUs, CPU and memory, what is wrong with them, and what to
// do about it.
#include <algorithm>

#include "app/doctor/report.h"
#include "app/doctor/toolkit.h"
#include "app/files/json.h"
#include "app/files/signals.h"
#include "app/program/command.h"
#include "app/program/commands.h"
#include "app/terminal/output.h"
#include "engine/base/error.h"
#include "engine/cpu/executor.h"

namespace skald {
namespace {

struct DoctorFlags {
  bool json = false, quick = false;
};

// Runs a measurement. Its Error becomes a finding.
template <class Fn>
void attempt(std::vector<Finding>& findings, const std::string& what, const Fn& measure) {
  if (interrupted_by()) return;
  try {
    measure();
  } catch (const Error& error) {
    findings.push_back({Severity::Warning, what + " could not be measured: " + error.what(),
                        "try again when the machine is less busy"});
  }
}

void measure_speeds(DoctorReport& report) {
  for (const cuda::DeviceInfo& gpu : report.facts.gpus) {
    if (!gpu.problem.empty()) continue;
    attempt(report.findings, concat("the speed of GPU ", gpu.index), [&] {
      report.gpu_speeds.push_back({gpu.index, cuda::measure_speeds(gpu.index)});
    });
  }
  std::vector<int> gpus;
  for (const GpuSpeeds& gpu : report.gpu_speeds) gpus.push_back(gpu.index);
  if (gpus.size() > 1 && gpus.size() <= cuda::kMostGroupGpus) {
    attempt(report.findings, "the exchange between GPUs", [&] {
      report.exchange = {gpus, cuda::measure_exchange(gpus)};
    });
  }
  // The measurement takes 1 GiB. A control group kills programs that exceed its limit, so keep a
  // reserve.
  constexpr int64_t kNeeded = int64_t{2} << 30;
  const Facts& facts = report.facts;
  const int64_t limit = facts.cgroup_memory_bytes;
  const int64_t room = limit > 0 ? std::min(limit, facts.available_bytes) : facts.available_bytes;
  attempt(report.findings, "the speed of the CPU's memory", [&] {
    if (room < kNeeded) fail(Exit::Memory, "less than 2 GiB are available");
    report.cpu_read = cpu::measure_read_bandwidth(facts.threads);
  });
}

int doctor(const DoctorFlags& flags) {
  DoctorReport report;
  report.facts = gather_facts();
  if (!report.facts.cuda.built && expects_gpu(report.facts)) {
    gather_toolkit(report.facts, process_environment);
  }
  report.findings = judge(report.facts);
  if (!flags.quick) measure_speeds(report);
  if (interrupted_by()) return 128 + interrupted_by();
  StandardOutput().write(flags.json ? dump(to_json(report), 2) + "\n" : to_text(report));
  const bool broken =
      std::any_of(report.findings.begin(), report.findings.end(),
                  [](const Finding& finding) { return finding.severity == Severity::Problem; });
  return static_cast<int>(broken ? Exit::Failed : Exit::Done);
}

}  // namespace

void add_doctor(Command& program) {
  Command& command = program.add_command(
      "doctor",
      "Checks this machine and says what to do about problems. Reports GPUs, drivers, "
      "CPU, memory,\n"
      "their speeds, and limits of containers and jobs. Exit code 1: the machine has a "
      "GPU that skald\n"
      "cannot use. Exit code 0: skald can use the GPU, or there is none.",
      {"skald doctor", "skald doctor --quick && skald run \"Once upon a time\"",
       "skald doctor --json | jq .device"});
  auto flags = std::make_shared<DoctorFlags>();
  command.flag("--quick", flags->quick, "Skip measuring speeds").group("Output");
  command.flag("--json", flags->json, "Print one JSON object").group("Output");
  command.action([=] { return doctor(*flags); });
}

}  // namespace skald
