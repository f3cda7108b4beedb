#include "engine/memory/memory_plan.h"

#include <algorithm>
#include <cmath>

#include "engine/base/error.h"
#include "engine/base/size_text.h"
#include "engine/memory/kv_pages.h"

namespace skald {
namespace {

int64_t sum(const std::vector<MemoryPart>& parts, bool with_mapped) {
  int64_t bytes = 0;
  for (const MemoryPart& part : parts) {
    if (!part.host && (with_mapped || !part.mapped)) bytes += part.bytes;
  }
  return bytes;
}

// The largest context up to `limit` whose parts fit: `limit` itself, or a whole number of pages.
int64_t largest_context(const PlanRequest& request, int64_t available, int64_t limit,
                        bool with_mapped) {
  const auto fits = [&](int64_t context) {
    return sum(request.parts(context), with_mapped) <= available;
  };
  if (fits(limit)) return limit;
  int64_t fit = 0, too_many = pages_for(limit);
  while (fit + 1 < too_many) {
    const int64_t middle = fit + (too_many - fit) / 2;
    (fits(middle * kPageTokens) ? fit : too_many) = middle;
  }
  return fit * kPageTokens;
}

}  // namespace

int64_t MemoryCap::of(int64_t total) const {
  if (bytes > 0) return bytes;
  return share > 0 ? static_cast<int64_t>(share * static_cast<double>(total)) : total;
}

int64_t MemoryPlan::needed() const { return sum(parts, true); }
int64_t MemoryPlan::mapped() const { return needed() - sum(parts, false); }
int64_t MemoryPlan::host() const {
  int64_t bytes = 0;
  for (const MemoryPart& part : parts) bytes += part.host ? part.bytes : 0;
  return bytes;
}

int64_t MemoryPlan::step_bytes(int64_t step_rows) const {
  if (step_rows <= 1) return row_copied;
  const double share = 1 - std::pow(1 - chosen, static_cast<double>(step_rows));
  if (copied_experts == 0 || share > most_chosen) return copied;
  return copied - copied_experts +
         static_cast<int64_t>(share * static_cast<double>(copied_experts));
}

double MemoryPlan::most_tokens(int64_t step_rows) const {
  const int64_t bytes = step_bytes(step_rows);
  if (bytes == 0) return 0;
  double speed = step_rows > 1 && copy_link > 0 ? copy_link : link;
  if (cpu > 0 && step_rows <= std::max(cpu_rows, 1)) {
    speed = link + cpu;
    if (cpu_share > 0) {
      const double by_link = link > 0 ? (1 - cpu_share) / link : 0;
      speed = 1 / std::max(cpu_share / cpu, by_link);
    }
  }
  return static_cast<double>(step_rows) * speed / static_cast<double>(bytes);
}

double MemoryPlan::most_prompt_tokens(int64_t tokens) const {
  if (tokens <= 0 || rows <= 0 || most_tokens(rows) <= 0) return 0;
  const auto seconds = [&](int64_t step_rows) {
    const double most = most_tokens(step_rows);
    return most > 0 ? static_cast<double>(step_rows) / most : 0;
  };
  const int64_t rest = tokens % rows;
  const double all =
      static_cast<double>(tokens / rows) * seconds(rows) + (rest > 0 ? seconds(rest) : 0);
  return all > 0 ? static_cast<double>(tokens) / all : 0;
}

int64_t usable_bytes(const DeviceMemorySize& device, const MemoryCap& cap) {
  return std::min(device.free, cap.of(device.total));
}

MemoryPlan make_plan(const PlanRequest& request) {
  MemoryPlan plan;
  plan.device = request.device;
  plan.available = usable_bytes(request.device, request.cap);
  plan.host_available = request.host_available;
  plan.model_context = request.model_context;
  plan.sequences = request.sequences;
  plan.shared_cache = request.shared_cache;
  const int64_t limit = std::max(request.context, request.model_context);
  // The mapped weights should stay in memory too, if possible.
  plan.most_context = largest_context(request, plan.available, limit, true);
  if (plan.most_context == 0) {
    plan.most_context = largest_context(request, plan.available, limit, false);
  }
  if (request.context > 0) {
    plan.context = request.context;
  } else {
    const bool has_short = request.short_context > 0 &&
                           request.short_context < request.model_context &&
                           request.tokens <= request.short_context;
    const int64_t own = has_short ? request.short_context : request.model_context;
    const bool bounded = request.context_beside_weights > 0 && request.context_beside_weights < own;
    const int64_t wished = bounded ? request.context_beside_weights : own;
    plan.context = std::min(plan.most_context, wished);
    plan.context_by = plan.context < wished ? MemoryPlan::ContextBy::Memory
                      : bounded             ? MemoryPlan::ContextBy::Weights
                      : has_short           ? MemoryPlan::ContextBy::Short
                                            : MemoryPlan::ContextBy::Model;
    if (plan.context == 0) plan.context = std::min<int64_t>(limit, kPageTokens);
  }
  plan.parts = request.parts(plan.context);
  return plan;
}

void check_fits(const MemoryPlan& plan, std::string_view device, std::string_view smaller) {
  if (plan.fits()) return;
  if (!plan.fits_host() && plan.host_by_rule == plan.host()) {
    fail(Exit::Memory, "the machine's memory does not hold ", size_text(plan.host()),
         " of this model's weights, which --override-tensor or --cpu-moe put there; ",
         size_text(plan.host_available), " may be used");
  }
  if (!plan.fits_host()) {
    fail(Exit::Memory, device, " has no room for ", size_text(plan.host()),
         " of this model's weights, and neither has the machine's memory, of which ",
         size_text(plan.host_available), " may be used; ",
         smaller.empty() ? "use a smaller model or type" : smaller);
  }
  std::string parts;
  for (const MemoryPart& part : plan.parts) {
    if (part.mapped || part.host || part.bytes == 0) continue;
    parts += concat(parts.empty() ? "" : ", ", part.name, " ", size_text(part.bytes));
  }
  const std::string most =
      plan.most_context > 0
          ? concat("the largest context that fits is ", plan.most_context, " (-c)")
          : concat("not even a context of ", std::min<int64_t>(plan.context, kPageTokens),
                   " fits; ", smaller.empty() ? "use a smaller model" : smaller,
                   " or another device");
  const std::string kept =
      plan.device_by_rule > 0 ? concat("; --override-tensor keeps ", size_text(plan.device_by_rule),
                                       " of the weights in ", device, "'s memory")
                              : "";
  fail(Exit::Memory, device, " does not hold this model with a context of ", plan.context,
       plan.sequences > 1 && !plan.shared_cache
           ? concat(" for each of ", plan.sequences, " sequences")
           : "",
       ": ", size_text(plan.needed() - plan.mapped()), " are needed (", parts, "), ",
       size_text(plan.available), " are available", kept, "; ", most);
}

}  // namespace skald
