// The parameters of the quantization search: which scale (and minimum) represents a few weights
// with the least sum of squared errors, when each weight is then rounded to the nearest number of a
// grid. The search is deterministic: summation orders are fixed and multiply-add contraction is
// off, whatever vectors a CPU has.
#pragma once

namespace skald {

// Fits w[i] ≈ scale * q[i] with whole q[i] in [lowest, highest], where lowest < 0 < highest. The
// scale may be negative: the longer side of the grid then serves the other sign. The scale is 0 if
// all weights are 0.
struct ScaleGrid {
  float lowest, highest;
  // The search maps the largest weight to `tries` points near each end of the grid. The points
  // start `first` inside the end and lie `step` apart. Each point gives a scale by least squares;
  // the best scale wins.
  float first, step;
  int tries;
};

// Fits w[i] ≈ scale * q[i] + min with whole q[i] in [0, highest] and scale >= 0.
struct RangeGrid {
  float highest;
  float first, step;  // as in ScaleGrid, applied to the range from smallest to largest weight
  int tries;
  bool min_below_zero;  // true: the format stores only min <= 0
};
struct RangeFit {
  float scale, min;
};

}  // namespace skald
