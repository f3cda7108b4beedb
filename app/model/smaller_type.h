// What a user can do about a model that fits nowhere: the largest --type that would fit, found by
// planning with every type.
#pragma once

#include <functional>
#include <string>

#include "engine/memory/memory_plan.h"
#include "engine/program/model.h"

namespace skald {

using PlanModel = std::function<MemoryPlan(const Model&)>;

// Returns advice for a message: "use --type q4_k_m, the largest that fits".
std::string smaller_advice(const Model& model, const PlanModel& plan);

// Calls check_fits() with that advice.
void check_fits(const Model& model, const PlanModel& plan, std::string_view device);

}  // namespace skald
