// Flags that say where matrices of a model lie on a machine with a GPU: --override-tensor,
// --cpu-moe and --n-cpu-moe, as llama.cpp has them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/step/backend.h"

namespace skald {

class Command;

// "REGEX=PLACE", several of them separated by commas: "ffn_up=cpu,ffn_down=gpu". A comma inside an
// expression is a part of it. Throws Error(Exit::Usage).
std::vector<WeightRule> parse_weight_rules(const std::string& text);

// The CPU gets the routed experts of the first `layers` layers; nothing: of all.
WeightRule expert_rule(std::optional<int> layers);

// --override-tensor, --cpu-moe and --n-cpu-moe. Rules of --override-tensor come before the others.
void add_rule_flags(Command& command, RunOptions& run);

}  // namespace skald
