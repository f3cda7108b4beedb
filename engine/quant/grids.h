// The search grid of each format that has an encoder.
#pragma once

#include "engine/quant/fit.h"
#include "engine/quant/formats/q4_0.h"
#include "engine/quant/formats/q4_1.h"
#include "engine/quant/formats/q4_k.h"
#include "engine/quant/formats/q5_0.h"
#include "engine/quant/formats/q5_1.h"
#include "engine/quant/formats/q5_k.h"
#include "engine/quant/formats/q6_k.h"
#include "engine/quant/formats/q8_0.h"

namespace skald {

SKALD_HD constexpr ScaleGrid grid_of(const BlockQ8_0*) { return {-127, 127, 0.2f, 0.2f, 3}; }
SKALD_HD constexpr ScaleGrid grid_of(const BlockQ4_0*) { return {-8, 7, 1.2f, 0.2f, 16}; }
SKALD_HD constexpr ScaleGrid grid_of(const BlockQ5_0*) { return {-16, 15, 1.2f, 0.2f, 14}; }
SKALD_HD constexpr RangeGrid grid_of(const BlockQ4_1*) { return {15, 1.2f, 0.2f, 16, false}; }
SKALD_HD constexpr RangeGrid grid_of(const BlockQ5_1*) { return {31, 1.2f, 0.2f, 14, false}; }
SKALD_HD constexpr RangeGrid grid_of(const BlockQ4_K*) { return {15, 1.2f, 0.2f, 16, true}; }
SKALD_HD constexpr RangeGrid grid_of(const BlockQ5_K*) { return {31, 1.2f, 0.2f, 14, true}; }
SKALD_HD constexpr ScaleGrid grid_of(const BlockQ6_K*) { return {-32, 31, 1.2f, 0.2f, 12}; }

template <class Block>
SKALD_HD constexpr auto grid_of() {
  return grid_of(static_cast<const Block*>(nullptr));
}

}  // namespace skald
