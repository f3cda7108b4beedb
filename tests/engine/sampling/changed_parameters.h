// Values for tests that go through all rows of the table of sampling parameters.
#pragma once

#include <type_traits>
#include <variant>
#include <vector>

#include "engine/sampling/sampling_params.h"

namespace skald::test {

// `base` with one parameter changed: once for each of a few values that the row's range allows.
inline std::vector<SamplingParams> changed_parameters(const SamplingParameter& row,
                                                      const SamplingParams& base) {
  std::vector<SamplingParams> all;
  const auto add = [&](auto member, auto value) {
    if (base.*member == value) return;
    all.push_back(base);
    all.back().*member = value;
  };
  std::visit(
      [&](auto member) {
        using T = std::remove_cvref_t<decltype(base.*member)>;
        if constexpr (std::is_same_v<T, LogitBias>) {
          add(member, LogitBias{{3, 2.5f}});
        } else if constexpr (std::is_same_v<T, uint64_t>) {
          add(member, T{7});
        } else {
          for (const double value : {0.0, 0.25, 0.5, 0.75, 1.0, 2.0, 3.0}) {
            if (row.range.holds(value) && T(value) == value) add(member, T(value));
          }
        }
      },
      row.member);
  return all;
}

}  // namespace skald::test
