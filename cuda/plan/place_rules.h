// What the user says about the places of matrices (RunOptions::weight_rules), as a choice for each
// fused op. A fused op has several tensors: the first rule that matches one of its matrices decides
// for all. An expert's tensor "blk.0.ffn_up.3.weight" has the name of a stack too,
// "blk.0.ffn_up_exps.weight", so that a rule serves every file of a model.
#pragma once

#include "cuda/plan/place.h"

namespace skald::cuda {

// Throws Error(Exit::Usage) if a rule matches no tensor, or moves only what cannot leave the GPU's
// memory (can_leave()). Where it matches other tensors too, those that cannot leave stay.
PlaceRules place_rules(const FusedProgram& fused, const RunOptions& options);

}  // namespace skald::cuda
