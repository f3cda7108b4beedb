// Turns random bits into valid blocks of any format, with scales that keep the weights near one.
#pragma once

#include <cstddef>
#include <random>

#include "engine/quant/dtype.h"

namespace skald::selftest {

// `block` holds info(type).block_bytes random bytes; only the scales are replaced.
void set_scales(DType type, std::byte* block, std::mt19937& random);

}  // namespace skald::selftest
