// The names of the number formats, for files that nvcc parses: it parses each file once for each
// architecture. Everyone else includes dtype.h.
#pragma once

#include <cstdint>

namespace skald {

enum class DType : uint8_t {
  F32,
  F16,
  BF16,
  Q8_0,
  Q4_0,
  Q4_1,
  Q5_0,
  Q5_1,
  Q2_K,
  Q3_K,
  Q4_K,
  Q5_K,
  Q6_K,
  IQ4_NL,
  IQ4_XS,
  MXFP4,
  FP8,
  NVFP4,
  IQ3_S,
  IQ3_XXS,
  IQ2_XXS,
  IQ2_XS,
  IQ2_S,
  IQ1_S,
  IQ1_M,
  TQ1_0,
  TQ2_0,
};

// How many numbers a block has; 1: a plain format.
int block_elems(DType type);

}  // namespace skald
