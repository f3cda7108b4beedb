// The Hadamard rotation. It spreads a vector's few large numbers over many, so that codes of four
// bits lose less of it. Scalar products stay what they were if both vectors are rotated.
#pragma once

#include <cmath>
#include <cstdint>

#include "engine/base/half.h"

namespace skald {

// The largest power of two that divides `dim`, which is above 0.
SKALD_HD constexpr int64_t hadamard_block(int64_t dim) { return dim & -dim; }

// Multiplies each hadamard_block(dim) numbers by the orthonormal Hadamard matrix in Sylvester's
// order, which is its own inverse. Element (i, j) is 1 / sqrt(block), with the sign of an even or
// odd number of common bits of i and j. Additions have one order on every machine.
inline void rotate_hadamard(float* x, int64_t dim) {
  const int64_t block = hadamard_block(dim);
  for (int64_t half = 1; half < block; half *= 2) {
    for (int64_t at = 0; at < dim; at += 2 * half) {
      float* const low = x + at;
      float* const high = low + half;
      for (int64_t i = 0; i < half; ++i) {
        const float sum = low[i] + high[i], difference = low[i] - high[i];
        low[i] = sum;
        high[i] = difference;
      }
    }
  }
  const float scale = 1 / std::sqrt(static_cast<float>(block));
  for (int64_t i = 0; i < dim; ++i) x[i] *= scale;
}

}  // namespace skald
