// The mathematics of making blocks: which scale (and minimum) represents a few weights with the
// least sum of squared errors, when each is then rounded to the nearest of the grid's numbers.
// Deterministic: fixed orders of summation and no contraction, whatever vectors a CPU has.
#pragma once

namespace skald {

// Fits of w[i] ≈ scale * q[i] with whole q[i] in [lowest, highest]; lowest < 0 < highest. The scale
// may be negative, which swaps the grid's longer side. 0 where all weights are 0.
struct ScaleGrid {
  float lowest, highest;
  // The largest weight lands on `tries` points of the grid's end, from `first` below it, `step`
  // apart. Each leads to a scale by least squares, the best of which wins.
  float first, step;
  int tries;
};

// Fits of w[i] ≈ scale * q[i] + min with whole q[i] in [0, highest]; scale >= 0.
struct RangeGrid {
  float highest;
  float first, step;  // as above, of the range between smallest and largest weight
  int tries;
  bool min_below_zero;  // min <= 0
};
struct RangeFit {
  float scale, min;
};

}  // namespace skald
