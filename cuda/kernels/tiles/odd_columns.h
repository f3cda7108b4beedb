// The scaling of activations for gemm_q_sm90 and experts_many_sm90, which depends on the block
// format of the weights.
#pragma once

#include "cuda/kernels/tiles/formats.h"

namespace skald::cuda {

// Formats with kSumsApart: a weight in the product is code times scale alone. The minimum, or the
// offset of all codes, is multiplied by sums of 32 activations in a product of its own.
template <class F>
inline constexpr bool kSumsApart =
    F::Scales::kCols == 32 && F::Codes::kOddScale == 16 && F::kTable == tiles::Table::None;

// Columns 2 and 3 of each four come out of fragment() (lane_weights.cuh) multiplied by kOddColumns.
// The activations of these columns are divided by it.
template <class F>
inline constexpr int kOddColumns = F::kHasMin && !kSumsApart<F> ? 1 : F::Codes::kOddScale;

inline float odd_columns(DType format) {
  float columns = 0;
  tiles::dispatch(format, [&](auto f) { columns = kOddColumns<decltype(f)>; });
  return columns;
}

}  // namespace skald::cuda
