// Where a model's numbers stop being numbers.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "engine/step/backend.h"

namespace skald {

// Runs the ids once more, with an eye on every op, and says where NaN or infinity appears first:
// "layer 5 (linear blk.5.ffn_down.weight)".
std::string first_not_finite(Executor& executor, std::span<const int32_t> ids);

}  // namespace skald
