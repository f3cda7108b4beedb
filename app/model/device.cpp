#include "app/model/device.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <numeric>
#include <optional>
#include <thread>
#include <utility>

#include "app/doctor/findings.h"
#include "app/model/loading.h"
#include "app/model/plan_report.h"
#include "app/model/ranks.h"
#include "app/model/smaller_type.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "engine/cpu/executor.h"

namespace skald {
namespace {

// Finds the first usable GPU. Starts CUDA on GPU after GPU only until one is usable, because each
// start takes time.
GpuSearch find_gpu() {
  Facts facts;
  facts.cuda = cuda::look_at_system();
  for (int i = 0; i < facts.cuda.devices; ++i) {
    facts.gpus.push_back(cuda::look_at_device(i));
    if (facts.gpus.back().problem.empty()) return {i, true, "", ""};
  }
  Facts whole = gather_surroundings("/", process_environment);
  whole.cuda = facts.cuda;
  whole.gpus = facts.gpus;
  const Finding why = why_no_gpu(whole);
  // A program built without CUDA is not missing a GPU: no notice on every run.
  return {-1, why.severity == Severity::Problem && cuda::built(), why.what, why.advice};
}

// Says only whether the machine seems to have a GPU. Does not start CUDA, which takes time.
GpuSearch expect_gpu() {
  return {-1, cuda::built() && expects_gpu(gather_surroundings("/", process_environment)), "", ""};
}

std::string cpu_reason(const Model& model, const RunOptions& options) {
  if (options.exact) return "--exact runs on the CPU only";
  return cuda::built() ? cuda::model_problem(model) : "";
}

void check_there(const Device& device) {
  const cuda::System system = cuda::look_at_system();
  if (system.devices == 0) fail(Exit::Failed, "--device cuda: ", system.problem);
  for (const int gpu : device.rank_gpus()) {
    if (gpu < system.devices || device.ranks == 1) continue;
    fail(Exit::Usage, "--tp ", device.ranks, ": there is no GPU cuda:", gpu, "; this machine has ",
         system.devices, system.devices == 1 ? " GPU" : " GPUs");
  }
  if (device.index >= system.devices) {
    fail(Exit::Usage, "--device cuda:", device.index,
         ": there is no such GPU; the last visible one is cuda:", system.devices - 1);
  }
}

Device parse_device_name(const DeviceFlags& flags) {
  const std::string& name = flags.name;
  constexpr std::string_view kPrefix = "cuda:";
  if (name == "auto") return {.automatic = true, .required = flags.require_gpu};
  if (name == "cpu") {
    if (flags.require_gpu)
      fail(Exit::Usage, "--require-gpu and --device cpu contradict each other; leave one out");
    return {};
  }
  if (name == "cuda") return {.cuda = true};
  int index = -1;
  if (name.starts_with(kPrefix)) {
    const char* end = name.data() + name.size();
    const auto parsed = std::from_chars(name.data() + kPrefix.size(), end, index);
    if (parsed.ec == std::errc() && parsed.ptr == end && index >= 0) {
      return {.cuda = true, .index = index};
    }
  }
  fail(Exit::Usage, flags.flag, " '", printable(name), "': expected auto, cpu, cuda or cuda:N");
}

std::vector<int> parse_gpu_list(const std::string& names) {
  std::vector<int> gpus;
  for (size_t begin = 0; begin <= names.size();) {
    const size_t end = std::min(names.find(',', begin), names.size());
    int index = -1;
    const auto parsed = std::from_chars(names.data() + begin, names.data() + end, index);
    const bool known = std::find(gpus.begin(), gpus.end(), index) != gpus.end();
    if (parsed.ec != std::errc() || parsed.ptr != names.data() + end || index < 0 || known) {
      fail(Exit::Usage, "--devices '", printable(names, 60),
           "': expected the numbers of different GPUs, such as 0,1,3");
    }
    gpus.push_back(index);
    begin = end + 1;
  }
  return gpus;
}

}  // namespace

std::vector<int> Device::rank_gpus() const {
  if (!gpus.empty()) return gpus;
  std::vector<int> from_index(static_cast<size_t>(ranks));
  std::iota(from_index.begin(), from_index.end(), index);
  return from_index;
}

int asked_ranks(const DeviceFlags& flags) {
  if (const auto place = find_rank(flags.rank, process_environment)) {
    if (!flags.list.empty()) {
      fail(Exit::Usage, "--rank and --devices contradict each other; leave one out");
    }
    if (flags.ranks != 1 && flags.ranks != place->of) {
      fail(Exit::Usage, "--rank says that there are ", place->of, " ranks; leave out --tp");
    }
    return place->of;
  }
  if (flags.list.empty()) {
    if (!flags.split.empty()) fail(Exit::Usage, "--split belongs to --devices; add it");
    return flags.ranks;
  }
  if (flags.ranks == 0) {
    fail(Exit::Usage, "--tp auto and --devices contradict each other; give --tp a number");
  }
  const int listed = static_cast<int>(parse_gpu_list(flags.list).size());
  if (flags.split == "tensor") {
    if (flags.ranks == 1 || flags.ranks == listed) return listed;
    fail(Exit::Usage, "--split tensor computes one model on all ", listed,
         " GPUs of --devices; leave out --tp ", flags.ranks);
  }
  if (flags.split == "replica" && flags.ranks > 1) {
    fail(Exit::Usage, "--split replica gives each GPU the whole model; leave out --tp ",
         flags.ranks);
  }
  if (listed % flags.ranks != 0) {
    fail(Exit::Usage, "--devices '", printable(flags.list, 60), "' names ", listed,
         " GPUs, which is no multiple of --tp ", flags.ranks);
  }
  return flags.ranks;
}

Device parse_device(const DeviceFlags& flags) {
  Device device = parse_device_name(flags);
  device.ranks = asked_ranks(flags);
  device.place = find_rank(flags.rank, process_environment);
  if (device.place && (device.automatic || device.cuda)) {
    fail(Exit::Usage, "--rank computes with the CPUs of several machines; add --device cpu");
  }
  if (device.ranks > 1 && device.automatic) device.required = true;
  return device;
}

std::vector<Device> parse_devices(const DeviceFlags& flags) {
  if (flags.list.empty()) return {parse_device(flags)};
  if (flags.name != "auto") {
    fail(Exit::Usage, "give either --device or --devices, not both");
  }
  const std::vector<int> gpus = parse_gpu_list(flags.list);
  const int ranks = asked_ranks(flags);
  std::vector<Device> devices;
  for (auto begin = gpus.begin(); begin < gpus.end(); begin += ranks) {
    devices.push_back(
        {.cuda = true, .index = *begin, .ranks = ranks, .gpus = {begin, begin + ranks}});
  }
  return devices;
}

Decision decide(const Device& asked, const std::string& cpu_reason, const GpuSearch& gpus) {
  if (!asked.automatic) return {asked, ""};
  if (cpu_reason.empty() && gpus.index >= 0) {
    return {{.cuda = true, .index = gpus.index, .ranks = asked.ranks}, ""};
  }
  const bool model = !cpu_reason.empty();
  const std::string& reason = model ? cpu_reason : gpus.reason;
  if (asked.required) {
    const bool ranks = asked.ranks > 1;
    fail(Exit::Failed, ranks ? "--tp" : "--require-gpu", ": ", reason, "; ",
         !model ? gpus.advice
                : concat("leave ", ranks ? "--tp" : "--require-gpu", " out to run on the CPU"));
  }
  if (!gpus.expected) return {{}, ""};
  return {{}, concat("using the CPU: ", reason, model ? "" : "; run skald doctor for advice")};
}

Device choose_device(const Device& asked, const Model& model, const RunOptions& options) {
  Decision decision{asked, ""};
  if (asked.automatic) {
    const std::string reason = cpu_reason(model, options);
    decision = decide(asked, reason, reason.empty() ? find_gpu() : expect_gpu());
  }
  if (!decision.notice.empty()) {
    std::fprintf(stderr, "skald: %s\n", printable(decision.notice, 1000).c_str());
  }
  if (decision.device.ranks == 0) decision.device.ranks = model.shard.of;
  return decision.device;
}

cuda::DeviceInfo describe_gpu(const Device& device) {
  check_there(device);
  return cuda::describe_device(device.index);
}

int gpus_from(const Device& device) {
  return std::min(cuda::look_at_system().devices - device.index, cuda::kMostGroupGpus);
}

int choose_ranks(const DeviceFlags& flags, const Model& model, const RunOptions& asked_options) {
  const int asked = asked_ranks(flags);
  if (asked > 0) return asked;
  const Device device = choose_device(parse_device(flags), model, asked_options);
  if (!device.cuda) return 1;
  const cuda::DeviceInfo gpu = describe_gpu(device);
  RunOptions options = asked_options;
  if (options.rows == 0) options.rows = default_rows(model, options, &gpu);
  const PlanModel plan = [&](const Model& each) { return cuda::plan_memory(each, options, gpu); };
  return auto_ranks(model, plan, gpus_from(device));
}

int64_t default_rows(const Model& model, const RunOptions& options, const cuda::DeviceInfo* gpu) {
  const int64_t rows = gpu ? cuda::default_rows(model, options, *gpu) : RunOptions{}.rows;
  return std::max<int64_t>(rows, options.sequences);  // a decode step has a row per sequence
}

MemoryPlan plan_memory(const Model& model, const RunOptions& asked_options, const Device& device) {
  RunOptions options = asked_options;
  if (!device.cuda) {
    if (options.rows == 0) options.rows = default_rows(model, options, nullptr);
    return cpu::plan_memory(model, options);
  }
  const cuda::DeviceInfo gpu = describe_gpu(device);
  if (options.rows == 0) options.rows = default_rows(model, options, &gpu);
  return cuda::plan_memory(model, options, gpu);
}

void check_divisible(const Model& model) {
  const int ranks = model.shard.of;
  if (ranks == 1 || count_all_reduces(model.program()) > 0) return;
  fail(Exit::Usage, "--tp ", ranks, ": this model has no part that can be divided by ", ranks,
       "; give another number");
}

std::unique_ptr<Executor> make_executor(const Model& model, const RunOptions& asked_options,
                                        const Device& asked) {
  RunOptions options = asked_options;
  const Device device = choose_device(asked, model, options);
  check(model.shard.of == device.ranks, "a model is planned for as many ranks as compute it");
  check_divisible(model);
  if (device.place) {
    std::unique_ptr<Executor> executor = lead_ranks(model, options, *device.place);
    std::fputs(plan_notes(executor->plan()).c_str(), stderr);
    return executor;
  }
  std::unique_ptr<Executor> executor;
  std::string notes;
  std::optional<LoadingBar> bar(std::in_place,
                                std::filesystem::path(model.weights->path()).filename().string());
  if (device.cuda) {
    if (options.exact) {
      fail(Exit::Usage, "--exact runs on the CPU only; leave out --exact or --device cuda");
    }
    const cuda::DeviceInfo gpu = describe_gpu(device);
    if (options.rows == 0) options.rows = default_rows(model, options, &gpu);
    options.loading = [&](int64_t bytes, int64_t of) { bar->show(bytes, of); };
    try {
      executor = device.ranks > 1 ? cuda::make_group(model, options, device.rank_gpus())
                                  : cuda::make_executor(model, options, device.index);
    } catch (const Error& error) {
      if (error.code() != Exit::Memory) throw;
      bar.reset();
      const PlanModel plan = [&](const Model& each) {
        return cuda::plan_memory(each, options, gpu);
      };
      const std::string more = more_ranks_advice(model, plan, gpus_from(device));
      if (!more.empty()) std::fprintf(stderr, "skald: %s\n", more.c_str());
      check_fits(model, plan, concat("cuda:", device.index));
      throw;
    }
    if (executor->plan().host() > executor->plan().host_by_rule) {
      const std::string more = more_ranks_advice(
          model, [&](const Model& each) { return cuda::plan_memory(each, options, gpu); },
          gpus_from(device));
      if (!more.empty()) notes = concat("skald: ", more, "\n");
    }
  } else {
    if (options.rows == 0) options.rows = default_rows(model, options, nullptr);
    const Model whole = make_weights(model, options.threads);
    executor = device.ranks > 1 ? cpu::make_group(whole, options, device.ranks)
                                : cpu::make_executor(whole, options);
    read_weights(whole, executor->plan(), *bar);
  }
  bar.reset();
  std::fputs(concat(plan_notes(executor->plan()), notes).c_str(), stderr);
  return executor;
}

std::vector<std::unique_ptr<Executor>> make_executors(const Model& model,
                                                      const RunOptions& asked_options,
                                                      const std::vector<Device>& devices) {
  RunOptions options = asked_options;
  options.executors = static_cast<int>(devices.size());
  std::vector<std::unique_ptr<Executor>> executors(devices.size());
  std::vector<std::exception_ptr> errors(devices.size());
  std::vector<std::thread> threads;
  threads.reserve(devices.size());
  const auto make = [&](size_t i) {
    try {
      executors[i] = make_executor(model, options, devices[i]);
    } catch (...) {
      errors[i] = std::current_exception();
    }
  };
  try {
    for (size_t i = 0; i < devices.size(); ++i) threads.emplace_back(make, i);
  } catch (...) {
    errors[threads.size()] = std::current_exception();
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  return executors;
}

double measure_read_bandwidth(const Device& device, int threads) {
  if (device.cuda) {
    double sum = 0;
    for (const int gpu : device.rank_gpus()) sum += cuda::measure_read_bandwidth(gpu);
    return sum;
  }
  const double own = cpu::measure_read_bandwidth(threads > 0 ? threads : cpu::available_threads());
  return device.place ? own * device.ranks : own;
}

double measured_bandwidth(const Device& device, const Executor& executor, int threads) {
  // A smaller model may stay in the CPU's caches, and measuring would take longer than the run.
  constexpr int64_t kLeast = 256 << 20;
  if (executor.program().weight_bytes() < kLeast) return 0;
  try {
    return measure_read_bandwidth(device, threads);
  } catch (const Error&) {  // not enough free memory to measure
    return 0;
  }
}

}  // namespace skald
