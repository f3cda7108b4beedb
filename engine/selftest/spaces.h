// The cases of state spaces (Mamba-2), with the convolution before them and the gate and norm
// behind them. Fresh sequences and sequences that go on, one row and many, sizes that fast kernels
// support and others.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/program/program.h"
#include "engine/selftest/data.h"

namespace skald::selftest {

struct SpaceCase {
  DType type;  // of activations
  SpaceSpec spec;
  int taps;
  std::vector<Part> parts;
  bool log_rate = false;  // as in StateSpace
  bool biased = false;    // the convolution has a bias
  bool strong = false;    // a token leaves little of a matrix, often nothing

  int rows() const;
  bool one_row_each() const;
  int64_t conv_cols() const { return spec.inputs(); }
};
std::vector<SpaceCase> space_cases(Extent extent);
std::string label(const SpaceCase& c);

struct SpaceData {
  // Rows of the step, rounded to the type.
  std::vector<float> mixed;             // [rows, spec.inputs()]: values, keys, queries
  std::vector<float> gate;              // [rows, spec.values()]
  std::vector<float> step;              // [rows, heads]
  std::vector<float> conv, conv_bias;   // [inputs, taps]; [inputs], or empty
  std::vector<float> rate, bias, skip;  // [heads]
  std::vector<float> norm;              // [values]
  // One a part. A fresh sequence has an old state of NaN, which nothing may read.
  std::vector<std::vector<float>> inputs;    // the last taps - 1 rows of `mixed`, the oldest first
  std::vector<std::vector<float>> matrices;  // [heads, head_dim, state_dim]
  Expected out;                              // [rows, values]
  Expected learned;                          // the matrices of all parts after the step
  // The inputs that the state has after the step, one a part.
  std::vector<std::vector<float>> inputs_after;
};
SpaceData make_data(const SpaceCase& c, uint64_t seed);

}  // namespace skald::selftest
