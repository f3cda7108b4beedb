// The one list of cases that every kernel must get right, on the CPU and on GPUs: awkward sizes,
// every epilogue, head size and mask. Data for a case are made by data.h; who runs a case says
// which of its kernels take it.
#pragma once

#include <string>
#include <vector>

#include "engine/program/program.h"
#include "engine/quant/dtype.h"

namespace skald::selftest {

enum class Extent : uint8_t {
  Small,  // a case or two of each sort, for runs under slow tools
  Full,
};

// What becomes of a product.
enum class Ending : uint8_t {
  Store,
  Add,     // to the residual stream
  Gated,   // activation(row 2 i) * row 2 i + 1
  Logits,  // stored as float32
};

struct ProductCase {
  DType type;
  int64_t outs, ins;
  int rows;
  Ending ending;
  bool norm = false, bias = false;  // norm: of the input, first
  Activation activation = Activation::Silu;
  DType activations = DType::F32;  // block formats: of what goes in and comes out
  float scale = 1;                 // Add: of what is added

  // The type of what goes in and comes out.
  DType in_type() const { return info(type).block_elems > 1 ? activations : type; }
};

// Rows of one sequence in a step, and the tokens that its cache holds before.
struct Part {
  int before, rows;
};

struct AttentionCase {
  DType type;
  AttentionSpec spec;
  int rope_pairs;
  bool interleaved;
  std::vector<Part> parts;
  bool head_norm = false;  // of each query and key, before it rotates
  float rope_scale = 1;    // of cosines and sines

  int rows() const;
  bool one_row_each() const;
  int longest() const;  // tokens of the longest sequence, after the step
};

enum class Pointwise : uint8_t {
  Embed,
  Norm,
  Gate,
  AddBias,
  Gather,
  // What few families need.
  ScaledEmbed,
  ScaledAdd,
  Cap,
  PostNorm,  // a scaled norm is added
  QkNorm,    // in place
};

struct PointwiseCase {
  Pointwise op;
  DType type;
  int rows;
  int64_t cols;
};

// Of the types that activations have: f32, f16, bf16.
std::vector<ProductCase> product_cases(Extent extent);
std::vector<AttentionCase> attention_cases(Extent extent);
std::vector<PointwiseCase> pointwise_cases(Extent extent);

// Of all block formats; their activations are float32.
std::vector<ProductCase> block_product_cases(Extent extent);
// The same for GPUs: bf16 activations, all endings.
std::vector<ProductCase> device_block_cases(Extent extent);

// For messages: "bf16 [258, 1024] x 17 rows, norm, bias, gated".
std::string label(const ProductCase& c);
std::string label(const AttentionCase& c);
std::string label(const PointwiseCase& c);

}  // namespace skald::selftest
