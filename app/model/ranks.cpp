#include "app/model/ranks.h"

#include "app/model/plan_report.h"
#include "engine/base/error.h"

namespace skald {
namespace {

bool can_divide(const Model& model) { return count_all_reduces(model.program()) > 0; }

}  // namespace

int fitting_ranks(const Model& model, const PlanModel& plan, int most) {
  Model each = model;
  for (int ranks = model.shard.of + 1; ranks <= most; ++ranks) {
    each.shard = {0, ranks};
    if (can_divide(each) && fits_in_memory(plan(each))) return ranks;
  }
  return 0;
}

int auto_ranks(Model model, const PlanModel& plan, int most) {
  model.shard = {};
  if (fits_in_memory(plan(model))) return 1;
  const int fitting = fitting_ranks(model, plan, most);
  if (fitting > 0) return fitting;
  for (int ranks = most; ranks > 1; --ranks) {
    model.shard = {0, ranks};
    if (can_divide(model)) return ranks;
  }
  return 1;
}

std::string more_ranks_advice(const Model& model, const PlanModel& plan, int most) {
  const int ranks = fitting_ranks(model, plan, most);
  if (ranks == 0) return "";
  return concat("--tp ", ranks, " has all weights in the memory of ", ranks, " GPUs");
}

}  // namespace skald
