// Convolutions over the last tokens: plain_conv() for one row and any number of taps; ConvWindow
// for a thread that goes from row to row of some adjacent columns and keeps their last inputs in
// registers.
#pragma once

#include "cuda/kernels/device/math.cuh"
#include "cuda/kernels/device/number.cuh"
#include "cuda/kernels/rows_of_step.h"

namespace skald::cuda {

inline constexpr int kConvTaps = 4;  // of the fast kernels

// The place of adjacent columns. Position p of the ring is its row p % taps.
template <class T>
struct ConvColumns {
  const T* in;  // the first one in row 0 of the step
  int64_t row_numbers;
  const float* ring;
  int64_t ring_cols;
};

// A row of the step, its position, and the first row of its sequence in this step.
struct ConvRow {
  int row, first, position;
};

// The convolution at one column, for any number of taps, without its activation.
template <class T>
__device__ float plain_conv(const ConvColumns<T>& from, const ConvRow& at, const float* weights,
                            int taps, float bias) {
  float sum = bias;
  for (int t = 0; t < taps; ++t) {
    const int back = taps - 1 - t;
    float x = 0;
    if (at.row - back >= at.first) {
      x = to_float(from.in[(at.row - back) * from.row_numbers]);
    } else if (at.position >= back) {
      x = from.ring[(at.position - back) % taps * from.ring_cols];
    }
    sum += weights[t] * x;
  }
  return sum;
}

template <class T>
class ConvWindow {
 public:
  static constexpr int kCols = 4;

  // `weights`: [kCols, kConvTaps]; `bias`: [kCols] or nullptr.
  __device__ ConvWindow(const float* weights, const float* bias) {
    for (int c = 0; c < kCols; ++c) {
      for (int t = 0; t < kConvTaps; ++t) weight_[c][t] = weights[c * kConvTaps + t];
      bias_[c] = bias ? bias[c] : 0;
    }
  }

  // Loads the inputs before the row; those before the step are in the ring.
  __device__ void start(const ConvColumns<T>& from, const ConvRow& at) {
    for (int t = 0; t < kConvTaps - 1; ++t) {
      const int back = kConvTaps - 1 - t;
      for (int c = 0; c < kCols; ++c) {
        last_[t][c] =
            at.row - back >= at.first ? to_float(from.in[(at.row - back) * from.row_numbers + c])
            : at.position >= back ? from.ring[(at.position - back) % kConvTaps * from.ring_cols + c]
                                  : 0;
      }
    }
  }

  // silu of the convolution at the row whose inputs are `now`.
  __device__ void next(const Pack<T, kCols>& now, float (&out)[kCols]) {
#pragma unroll
    for (int c = 0; c < kCols; ++c) {
      const float x = to_float(now.x[c]);
      out[c] = silu(bias_[c] + (weight_[c][0] * last_[0][c] + weight_[c][1] * last_[1][c] +
                                weight_[c][2] * last_[2][c] + weight_[c][3] * x));
      last_[0][c] = last_[1][c];
      last_[1][c] = last_[2][c];
      last_[2][c] = x;
    }
  }

 private:
  float weight_[kCols][kConvTaps], bias_[kCols];
  float last_[kConvTaps - 1][kCols] = {};  // the oldest first
};

}  // namespace skald::cuda
