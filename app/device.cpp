#include "app/device.h"

#include <charconv>
#include <cstdio>

#include "app/plan_report.h"
#include "engine/cpu/executor.h"
#include "engine/error.h"
#include "engine/printable.h"

namespace skald {

Device parse_device(const std::string& name) {
  if (name == "cpu") return {};
  if (name == "cuda") return {true, 0};
  constexpr std::string_view kPrefix = "cuda:";
  int index = -1;
  if (name.starts_with(kPrefix)) {
    const char* end = name.data() + name.size();
    const auto parsed = std::from_chars(name.data() + kPrefix.size(), end, index);
    if (parsed.ec == std::errc() && parsed.ptr == end && index >= 0) return {true, index};
  }
  fail(Exit::Usage, "--device '", printable(name), "': expected cpu, cuda or cuda:N");
}

cuda::DeviceInfo describe_gpu(const Device& device) {
  const cuda::Devices found = cuda::list_devices();
  if (found.devices.empty()) fail(Exit::Failed, "--device cuda: ", found.problem);
  if (device.index >= static_cast<int>(found.devices.size())) {
    fail(Exit::Usage, "--device cuda:", device.index, ": there are ", found.devices.size(),
         " GPUs, counted from 0");
  }
  return found.devices[static_cast<size_t>(device.index)];
}

std::unique_ptr<Executor> make_executor(const Model& model, const RunOptions& options,
                                        const Device& device) {
  std::unique_ptr<Executor> executor;
  if (device.cuda) {
    if (options.exact) fail(Exit::Usage, "--exact is for the CPU; leave --device cuda out");
    executor = cuda::make_executor(model, options, describe_gpu(device).index);
  } else {
    executor = cpu::make_executor(model, options);
  }
  std::fputs(plan_notes(executor->plan()).c_str(), stderr);
  return executor;
}

double measure_read_bandwidth(const Device& device, int threads) {
  if (device.cuda) return cuda::measure_read_bandwidth(device.index);
  return cpu::measure_read_bandwidth(threads > 0 ? threads : cpu::available_threads());
}

}  // namespace skald
