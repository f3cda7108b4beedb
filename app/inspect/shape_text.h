// A tensor's shape as people read it: "4096 × 128".
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/error.h"

namespace skald {

inline std::string shape_text(const std::vector<int64_t>& shape) {
  std::string text;
  for (int64_t size : shape) text += concat(text.empty() ? "" : " × ", size);
  return text;
}

}  // namespace skald
