// A float as JSON with the fewest digits that are read back as the same float: 0.8, not
// 0.800000011920929.
#pragma once

#include <charconv>
#include <cmath>

#include "app/files/json.h"

namespace skald {

inline Json float_json(float value) {
  if (!std::isfinite(value)) return nullptr;
  char text[32];
  const auto written = std::to_chars(text, text + sizeof text, value);
  double number = 0;
  std::from_chars(text, written.ptr, number);
  return number;
}

}  // namespace skald
