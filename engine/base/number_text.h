// A number as text in a format of printf: number_text(0.25, "%.1f %%").
#pragma once

#include <cstdio>
#include <string>

namespace skald {

// `format` takes one double and gives at most 63 bytes.
inline std::string number_text(double value, const char* format) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

}  // namespace skald
