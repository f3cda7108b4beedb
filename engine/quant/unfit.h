// Detects weights that a format cannot hold: infinite, NaN, or too large. All code that makes
// weights uses this check and this message.
#pragma once

#include <cstdint>
#include <string>

#include "engine/quant/dtype.h"

namespace skald {

// The largest magnitude that the format holds.
float largest_weight(DType type);

// The index of the first weight that does not fit; -1: all fit.
int64_t first_unfit(const float* weights, int64_t count, DType type);

// Throws Error(Exit::Model) about `weight` in row `row` of a tensor.
[[noreturn]] void fail_unfit(const std::string& file, const std::string& tensor, int64_t row,
                             float weight, DType type);

}  // namespace skald
