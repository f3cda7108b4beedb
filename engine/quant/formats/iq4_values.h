// The sixteen values of IQ4_NL and IQ4_XS: -127 -104 -83 -65 -49 -35 -22 -10 1 13 25 38 53 69 89
// 113. They are denser near zero, as weights are. Two constants of eight bytes serve host and
// device; a table in memory would need a copy for each.
#pragma once

#include <cstdint>

#include "engine/base/half.h"

namespace skald {

SKALD_HD constexpr int iq4_value(int q) {
  const uint64_t eight = q < 8 ? 0xf6eaddcfbfad9881u : 0x7159453526190d01u;
  return static_cast<int8_t>(eight >> (q % 8 * 8));
}

}  // namespace skald
