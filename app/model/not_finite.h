// Finds the op whose output first holds NaN or infinity.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "engine/step/backend.h"

namespace skald {

// Runs the ids again, checks the output of every op, and names the first one with NaN or infinity:
// Returns the place of the first NaN or infinity: "layer 5 (linear blk.5.ffn_down.weight)".
std::string first_not_finite(Executor& executor, std::span<const int32_t> ids);

}  // namespace skald
