// Random inputs for a case, rounded to its type, and what comes out of the formula in double
// precision. A kernel's result is judged by its distance from that, over the size of the numbers
// that were added up, so that a sum that happens to be near zero asks for no more than others.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "engine/program/tensor.h"
#include "engine/selftest/cases.h"

namespace skald::selftest {

struct Expected {
  std::vector<double> values;
  double size = 0;  // of all values together
  // The largest error that rounding explains: of the type's activations, and of sums in
  // float32.
  double bound = 0;

  // NaN counts as infinite.
  double error(std::span<const float> values) const;
};

// A row of weights with a row of activations: the sum of their products, and of the squares.
struct Dot {
  double value = 0, squares = 0;
};
Dot dot(const float* weights, const double* in, size_t count);

struct ProductData {
  std::vector<std::byte> weight_bytes;
  TensorView weight;               // [outs, ins]
  std::vector<float> in;           // [rows, ins], of the type; with norm: any float32
  std::vector<float> norm_weight;  // [ins]
  std::vector<float> bias;         // [outs], zeros without
  std::vector<float> residual;     // [rows, outs] before Add, else empty
  Expected expected;               // [rows, outs], Gated: [rows, outs / 2]
};
inline constexpr float kNormEps = 1e-5f;
inline constexpr float kScale = 0.37f;   // of ScaledEmbed, ScaledAdd, Cap and PostNorm
inline constexpr float kSoftcap = 0.5f;  // of Cap
ProductData make_data(const ProductCase& c, uint64_t seed);

struct AttentionData {
  std::vector<float> inv_freq;           // [rope_pairs]
  std::vector<float> q_norm, k_norm;     // [head_dim], with head norms
  std::vector<float> qkv;                // [rows, heads + 2 kv_heads, head_dim], of the type
  std::vector<std::vector<float>> keys;  // of each part, [before, kv_heads, head_dim], of the type
  std::vector<std::vector<float>> values;
  Expected out;       // [rows, heads, head_dim]
  Expected new_keys;  // [rows, kv_heads, head_dim], normed and rotated
};
AttentionData make_data(const AttentionCase& c, uint64_t seed);

struct PointwiseData {
  static constexpr int kVocab = 37;  // rows that Embed and Gather pick from
  std::vector<int32_t> picked;       // [rows]
  std::vector<float> in;             // Embed, Gather: [kVocab, cols]; Gate: [rows, 2 cols]
  std::vector<float> weight;         // norms: [cols]; Gate: bias [2 cols]; AddBias: [cols];
                                     // ScaledAdd: what is scaled and added, [rows, cols]
  std::vector<float> residual;       // PostNorm: what it is added to, [rows, cols]
  Activation activation = Activation::Silu;
  Expected expected;  // [rows, cols]
};
PointwiseData make_data(const PointwiseCase& c, uint64_t seed);

// A type's rounding error is at most this, relative.
double unit_roundoff(DType type);
// Plain numbers as `type` stores them, which must not be a block format.
std::vector<std::byte> encode(DType type, std::span<const float> values);
std::vector<float> decode(DType type, std::span<const std::byte> bytes);

}  // namespace skald::selftest
