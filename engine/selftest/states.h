// The cases of layers with a recurrent state: a gated delta net with the convolution before it and
// the norm and gate behind it. Fresh sequences and sequences that go on, one row and many, heads of
// sizes that fast kernels support and others, each layout of heads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/program/program.h"
#include "engine/selftest/data.h"

namespace skald::selftest {

struct DeltaCase {
  DType type;  // of activations
  DeltaSpec spec;
  int taps;
  std::vector<Part> parts;
  bool log_rate = false;  // as in DeltaNet
  // A row of the product has the numbers of a group of heads side by side, instead of all queries,
  // all keys and so on.
  bool grouped = false;
  bool strong = false;  // decays keep little of a matrix, often nothing

  int rows() const;
  bool one_row_each() const;
  int64_t conv_cols() const { return 2 * spec.keys() + spec.values(); }
};
std::vector<DeltaCase> delta_cases(Extent extent);
std::string label(const DeltaCase& c);

struct DeltaData {
  // Rows of the step, rounded to the type.
  std::vector<float> mixed;        // [rows, conv_cols()]: queries, keys, values
  std::vector<float> gate;         // [rows, values]
  std::vector<float> decay, beta;  // [rows, value_heads]
  std::vector<float> conv;         // [conv_cols(), taps]
  std::vector<float> rate, bias;   // [value_heads]
  std::vector<float> norm;         // [value_dim]
  // One a part. A fresh sequence has an old state of NaN, which nothing may read.
  std::vector<std::vector<float>> inputs;    // the last taps - 1 rows of `mixed`, the oldest first
  std::vector<std::vector<float>> matrices;  // [value_heads, key_dim, value_dim]
  Expected out;                              // [rows, values]
  Expected learned;                          // the matrices of all parts after the step
  // The inputs that the state has after the step, one a part.
  std::vector<std::vector<float>> inputs_after;
};
DeltaData make_data(const DeltaCase& c, uint64_t seed);

}  // namespace skald::selftest
