#include "engine/base/size_text.h"

#include <cstdio>

namespace skald {

std::string size_text(int64_t bytes) {
  const auto in = [&](double unit, const char* format) {
    char text[32];
    std::snprintf(text, sizeof text, format, static_cast<double>(bytes) / unit);
    return std::string(text);
  };
  if (bytes < int64_t{1} << 20) return in(1 << 10, "%.1f KiB");
  if (bytes < int64_t{1} << 30) return in(1 << 20, "%.1f MiB");
  return in(1 << 30, "%.2f GiB");
}

}  // namespace skald
