#include "app/model/smaller_type.h"

#include "engine/base/error.h"
#include "models/convert/quantized.h"

namespace skald {

std::string smaller_advice(const Model& model, const PlanModel& plan) {
  std::string_view best;
  int64_t most = 0;
  for (const std::string_view type : quant_mix_names()) {
    try {
      const MemoryPlan memory = plan(quantized_model(model, find_quant_mix(type)));
      const int64_t bytes = memory.needed() + memory.host();
      if (!memory.fits() || bytes <= most) continue;
      most = bytes;
      best = type;
    } catch (const Error& error) {
      if (error.code() != Exit::Usage) throw;
      return "its weights are quantized already: use a smaller file of this model, or a smaller "
             "model";
    }
  }
  if (best.empty()) return "use a smaller model: no --type is small enough";
  return concat("use --type ", best, ", the largest that fits");
}

void check_fits(const Model& model, const PlanModel& plan, std::string_view device) {
  const MemoryPlan memory = plan(model);
  if (!memory.fits()) check_fits(memory, device, smaller_advice(model, plan));
}

}  // namespace skald
