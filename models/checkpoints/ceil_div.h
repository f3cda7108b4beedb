// Division of counts that rounds up.
#pragma once

#include <cstdint>

namespace skald {

// How many parts of `size` hold `count`: the last one may not be full.
constexpr int64_t ceil_div(int64_t count, int64_t size) { return (count + size - 1) / size; }

}  // namespace skald
