// head_products: a product for each head by itself, as attention to latents needs before and behind
// it (models/families/deepseek.cpp). Weights have the activations' type.
//
// Up to kFewRows rows: a warp computes one number of every row, so each weight is read once; the
// time is bytes over bandwidth. More rows: tiles of 64 rows and 64 numbers in shared memory,
// without tensor cores, since these products are a few percent of a model's.
#pragma once

#include <cstdint>

#include "cuda/gpu/stream.h"
#include "engine/quant/dtype_enum.h"

namespace skald::cuda {

struct HeadProductsLaunch {
  // The place of each head's numbers: heads are `width` numbers apart, rows `stride`.
  struct Place {
    int64_t width, stride;
  };
  DType type;          // of all numbers
  const void* weight;  // [heads, outs, ins]
  int64_t outs, ins;   // of a head
  const void* in;      // the first head's first column of the first row
  void* out;           // the same; another buffer
  Place from, to;
  int heads, rows;
  bool dependent = false;  // LinearShape's
};
void launch_head_products(const HeadProductsLaunch& launch, Stream stream);

}  // namespace skald::cuda
