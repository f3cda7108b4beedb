// Runs a test once for each instruction set that this CPU has and the fast kernels are built for.
#pragma once

#include <hwy/targets.h>

#include <cstdint>

#include "engine/cpu/kernels.h"
#include "tests/catch.h"

namespace skald::test {

template <class Fn>
void for_each_target(const Fn& fn) {
  const int64_t supported = hwy::SupportedTargets();
  constexpr int64_t kTargets[] = {HWY_EMU128, HWY_SSE4, HWY_AVX2, HWY_AVX3, HWY_AVX3_DL, HWY_NEON};
  for (int64_t target : kTargets) {
    if (target != HWY_EMU128 && (supported & target) == 0) continue;
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    const std::string description = cpu::fast_kernels({})->description();
    INFO(description);
    CHECK(description == std::string(hwy::TargetName(target)) + ", 1 thread");
    fn();
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace skald::test
