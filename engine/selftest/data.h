// Random inputs for a case, rounded to its type, and the formula's result in double precision. A
// kernel's error is its distance from that result, divided by the size of the summed terms. So a
// sum that is near zero by chance needs no smaller absolute error than other sums.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "engine/program/tensor.h"
#include "engine/selftest/cases.h"

namespace skald::selftest {

struct Expected {
  std::vector<double> values;
  double size = 0;  // norm of all summed terms
  // The largest error that rounding explains: rounding to the activations' type, and float32 sums.
  double bound = 0;

  // A NaN gives an infinite error.
  double error(std::span<const float> values) const;
};

// The dot product of a row of weights and a row of activations, and the sum of the squared
// products.
struct Dot {
  double value = 0, squares = 0;
};
Dot dot(const float* weights, const double* in, size_t count);

struct ProductData {
  std::vector<std::byte> weight_bytes;
  TensorView weight;               // [outs, ins]
  std::vector<float> in;           // [rows, ins], rounded to the type; with norm: any float32
  std::vector<float> norm_weight;  // [ins]
  std::vector<float> bias;         // [outs], zeros if the case has no bias
  std::vector<float> residual;     // Add: [rows, outs] before the addition; else empty
  Expected expected;               // [rows, outs], Gated: [rows, outs / 2]
};
inline constexpr float kNormEps = 1e-5f;
inline constexpr float kScale = 0.37f;   // scale of ScaledEmbed, ScaledAdd, Cap and PostNorm
inline constexpr float kKeep = 0.75f;    // the part of x that PostNorm keeps
inline constexpr float kSoftcap = 0.5f;  // softcap of Cap
ProductData make_data(const ProductCase& c, uint64_t seed);

// Sequences are called parts, as in AttentionCase.
struct AttentionData {
  std::vector<float> inv_freq;        // [rope_pairs]
  std::vector<float> q_norm, k_norm;  // [head_dim], with head norms
  std::vector<float> sinks;           // [heads], with sinks
  std::vector<float> qkv;             // [rows, heads + 2 kv_heads, head_dim], rounded to the type
  // One per part: [cached, kv_heads, head_dim], rounded.
  std::vector<std::vector<float>> keys, values;
  Expected out;       // [rows, heads, head_dim]
  Expected new_keys;  // [rows, kv_heads, head_dim], normed and rotated
  // The same of values, normed if the case says so. Both are empty if the case reads.
  Expected new_values;
};
AttentionData make_data(const AttentionCase& c, uint64_t seed);

struct PointwiseData {
  static constexpr int kVocab = 37;  // rows of the table that Embed and Gather read
  std::vector<int32_t> picked;       // [rows]
  // Embed, Gather: [kVocab, cols]; Gate: [rows, 2 cols]; SumOfNorms: [2, rows, cols]
  std::vector<float> in;
  // [cols] for norms and AddBias; [2 cols] for Gate's bias; [rows, cols] for ScaledAdd's addend.
  // SumOfNorms: [3, cols], the last ones for the sum. GatedPart, CopyPart: [rows, 2 cols], what is
  // gated or copied; its part begins at column cols / 2.
  std::vector<float> weight;
  std::vector<float> residual;  // PostNorm, SumOfNorms: [rows, cols] before the addition
  std::vector<float> bias;      // BiasedLayerNorm: [cols]
  Activation activation = Activation::Silu;
  Expected expected;  // [rows, cols]
};
PointwiseData make_data(const PointwiseCase& c, uint64_t seed);

// The largest relative rounding error of a type.
double unit_roundoff(DType type);
// Numbers as bytes of `type`, which must not be a block format.
std::vector<std::byte> encode(DType type, std::span<const float> values);
std::vector<float> decode(DType type, std::span<const std::byte> bytes);

}  // namespace skald::selftest
