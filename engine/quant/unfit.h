// Weights that a format cannot hold: infinite, not a number, or too large. Whoever makes weights
// looks for them, and says the same of them.
#pragma once

#include <cstdint>
#include <string>

#include "engine/quant/dtype.h"

namespace skald {

float largest_weight(DType type);

// The first of them that does not fit; -1: all fit.
int64_t first_unfit(const float* weights, int64_t count, DType type);

// Throws Error(Exit::Model) for a weight of that row of a tensor.
[[noreturn]] void fail_unfit(const std::string& file, const std::string& tensor, int64_t row,
                             float weight, DType type);

}  // namespace skald
