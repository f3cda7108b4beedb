// What an encoder gets on the host: a block's weights, or a group's.
#pragma once

namespace skald {

struct HostWeights {
  const float* w;
  // One for each weight, above 0; nullptr: all are equally important.
  const float* importances = nullptr;

  HostWeights from(int first) const {
    return {w + first, importances ? importances + first : nullptr};
  }
};

}  // namespace skald
