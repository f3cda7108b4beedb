// A clock that tests can replace.
#pragma once

#include <chrono>
#include <functional>

namespace skald {

using SecondsClock = std::function<double()>;  // seconds since some moment

inline double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace skald
