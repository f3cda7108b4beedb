// Blocks of any format from random bits: with scales that keep the numbers near one.
#pragma once

#include <cstddef>
#include <random>

#include "engine/quant/dtype.h"

namespace skald::selftest {

// `block` holds random bits, info(type).block_bytes of them.
void set_scales(DType type, std::byte* block, std::mt19937& random);

}  // namespace skald::selftest
