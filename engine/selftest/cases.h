// The one list of test cases for every kernel, on the CPU and on GPUs: awkward sizes, every
// epilogue, head size and mask. data.h makes the data of a case. The code that runs the cases
// decides which kernels support a case.
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

// What the epilogue does with a product.
enum class Ending : uint8_t {
  Store,
  Add,        // add to the residual stream
  Gated,      // activation(row 2 i) * row 2 i + 1
  Logits,     // store as float32
  Activated,  // store activation(row i)
};

struct ProductCase {
  DType type;
  int64_t outs, ins;
  int rows;
  Ending ending;
  bool norm = false, bias = false;  // norm: the input is normed first
  Activation activation = Activation::Silu;
  DType activations = DType::F32;  // block formats: type of input and output
  float scale = 1;                 // Add: factor of the product

  // The type of input and output.
  DType in_type() const { return info(type).block_elems > 1 ? activations : type; }
};

// The rows of one sequence in a step, and the tokens in its cache before the step.
struct Part {
  int before, rows;
};

struct AttentionCase {
  DType type;
  AttentionSpec spec;
  int rope_pairs;
  bool interleaved;
  std::vector<Part> parts;
  bool head_norm = false;        // norm the heads of queries and keys
  bool norm_after_rope = false;  // norm after the rotation, not before
  float rope_scale = 1;          // factor of cosines and sines; 1 if norm_after_rope
  bool sinks = false;
  bool v_norm = false;           // with head_norm: norm the heads of values too, without weights
  bool values_are_keys = false;  // v is k before its norm
  bool reads = false;            // the cache has the step's tokens already; nothing is appended

  int rows() const;
  bool one_row_each() const;
  int longest() const;  // tokens of the longest sequence after the step
  // Tokens of a part in the cache before the step.
  int cached(const Part& part) const { return part.before + (reads ? part.rows : 0); }
};

enum class Pointwise : uint8_t {
  Embed,
  Norm,
  Gate,
  AddBias,
  Gather,
  // Used by few families.
  ScaledEmbed,
  ScaledAdd,
  Cap,
  PostNorm,  // scales, and adds a scaled norm
  QkNorm,    // in place
  LayerNorm,
  BiasedLayerNorm,
  RowGate,     // in place, each row by its own factor
  SumOfNorms,  // scales, and adds the scaled norm of the sum of two norms
  GatedPart,   // in place, by a part of wider rows
  CopyPart,    // of wider float32 rows
};

struct PointwiseCase {
  Pointwise op;
  DType type;
  int rows;
  int64_t cols;
};

// Cases for the types of activations: f32, f16, bf16.
std::vector<ProductCase> product_cases(Extent extent);
std::vector<AttentionCase> attention_cases(Extent extent);
std::vector<PointwiseCase> pointwise_cases(Extent extent);

// Cases for all block formats, with float32 activations.
std::vector<ProductCase> block_product_cases(Extent extent);
// Cases for all block formats on GPUs, with bf16 activations and all endings.
std::vector<ProductCase> device_block_cases(Extent extent);

// Text for messages: "bf16 [258, 1024] x 17 rows, norm, bias, gated".
std::string label(const ProductCase& c);
std::string label(const AttentionCase& c);
std::string label(const PointwiseCase& c);

}  // namespace skald::selftest
