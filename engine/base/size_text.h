// Byte counts in units that people read.
#pragma once

#include <cstdint>
#include <string>

namespace skald {

std::string size_text(int64_t bytes);  // "3.0 KiB", "1.25 GiB"

}  // namespace skald
