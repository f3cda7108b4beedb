#include "engine/cpu/simd.h"

#include "engine/cpu/fast_targets.h"
// Must come after fast_targets.h.
#include <hwy/highway.h>

namespace skald::cpu {

Simd find_simd() {
  Simd simd;
  const int64_t supported = hwy::SupportedTargets();
  constexpr int64_t kSlow = HWY_SSE4 | HWY_SSSE3 | HWY_SCALAR | HWY_EMU128;
  for (int bit = 0; bit < 63; ++bit) {  // lower bits are better targets
    const int64_t target = int64_t{1} << bit;
    if ((HWY_TARGETS & target) == 0) continue;
    simd.compiled.emplace_back(hwy::TargetName(target));
    if (simd.chosen.empty() && (supported & target) != 0) {
      simd.chosen = simd.compiled.back();
      simd.slow = (target & kSlow) != 0;
    }
  }
  return simd;
}

}  // namespace skald::cpu
