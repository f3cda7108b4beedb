// How many GPUs hold a model together: what --tp auto chooses, and advice where one GPU is too
// small. All of them are as large as the one that `plan` is for.
#pragma once

#include <string>

#include "app/model/smaller_type.h"

namespace skald {

// The smallest number of ranks, more than the model's own and at most `most`, each of which has
// all of its weights in its GPU's memory. 0: there is none.
int fitting_ranks(const Model& model, const PlanModel& plan, int most);

// For --tp auto: 1 if the model fits, else fitting_ranks(), else as many ranks as can divide it.
int auto_ranks(Model model, const PlanModel& plan, int most);

// "--tp 2 has all weights in the memory of 2 GPUs"; empty if no number of ranks does.
std::string more_ranks_advice(const Model& model, const PlanModel& plan, int most);

}  // namespace skald
