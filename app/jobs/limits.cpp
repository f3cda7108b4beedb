#include "app/jobs/limits.h"

#include <algorithm>
#include <functional>
#include <optional>

#include "app/model/smaller_type.h"
#include "engine/base/error.h"
#include "engine/cpu/executor.h"
#include "engine/cpu/machine.h"
#include "engine/memory/kv_pages.h"

namespace skald {
namespace {

// More sequences make each step longer, since each reads its part of the cache. Beyond these counts
// the matrix products gain nothing.
constexpr int kGpuSequences = 256, kCpuSequences = 32;

}  // namespace

int64_t cache_bytes(const MemoryPlan& plan) {
  int64_t bytes = 0;
  for (const MemoryPart& part : plan.parts) bytes += part.name == "cache" ? part.bytes : 0;
  return bytes;
}

int64_t most_tokens(int64_t least, int64_t most, const std::function<bool(int64_t)>& good) {
  int64_t fit = pages_for(least), too_many = pages_for(most) + 1;
  while (fit + 1 < too_many) {
    const int64_t middle = fit + (too_many - fit) / 2;
    (good(middle * kPageTokens) ? fit : too_many) = middle;
  }
  return fit * kPageTokens;
}

JobLimits choose_job_limits(const Model& model, const RunOptions& asked, int sequences,
                            const Device& device) {
  std::optional<cuda::DeviceInfo> gpu;
  if (device.cuda) gpu = describe_gpu(device);
  RunOptions options = asked;
  options.sequences = sequences > 0 ? sequences : gpu ? kGpuSequences : kCpuSequences;
  options.cache_tokens = 1;  // room for one sequence, whatever its context
  if (options.rows == 0) options.rows = default_rows(model, options, gpu ? &*gpu : nullptr);
  options.sequences = static_cast<int>(std::min<int64_t>(options.sequences, options.rows));
  const auto plan_of = [&](const Model& each) {
    return gpu ? cuda::plan_memory(each, options, *gpu) : cpu::plan_memory(each, options);
  };
  const auto plan = [&] { return plan_of(model); };
  const MemoryPlan one = plan();
  if (gpu && !one.fits()) check_fits(model, plan_of, "the GPU");
  check_fits(one, "this machine");
  options.context = one.context;
  // More sequences are worth no weights that leave the GPU. If each step copies weights anyway, it
  // takes as long for many sequences as for one, and both share the GPU's memory.
  const bool streams = one.copied > 0;
  // A machine has other programs beside this one; a GPU's memory is there to be used.
  const int64_t for_cache = gpu && !streams ? one.available : one.available / 2;
  options.cache_tokens =
      most_tokens(one.context, bytes_product(one.context, options.sequences), [&](int64_t tokens) {
        options.cache_tokens = tokens;
        const MemoryPlan tried = plan();
        return tried.fits() && cache_bytes(tried) <= for_cache && (streams || tried.copied == 0);
      });
  MemoryPlan chosen = plan();
  chosen.context_by = one.context_by;
  return {options, chosen};
}

SwapLimits swap_limits(std::span<const std::unique_ptr<Executor>> executors, const Device& device) {
  int64_t left = cpu::lockable_memory();
  if (!device.cuda) {  // the system provides the cache's memory as tokens fill it
    const MemoryPlan& plan = executors.front()->plan();
    left = std::min(left, plan.available) - plan.needed();
  }
  const int64_t half = std::max<int64_t>(left, 0) / 2;
  return {half / std::ssize(executors),
          [half](int64_t bytes) { return cpu::lockable_memory() - bytes >= half; }};
}

}  // namespace skald
