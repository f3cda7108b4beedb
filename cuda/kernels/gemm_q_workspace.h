// How much memory gemm_q_sm90 wants beside its launch: arithmetic alone, for plans.
#pragma once

#include <cstdint>

namespace skald::cuda {

inline constexpr int kGemmQMostRows = 256;

inline int gemm_q_tile_rows(int rows) { return rows <= 32 ? 32 : rows <= 64 ? 64 : 128; }
inline int64_t gemm_q_padded_cols(int64_t ins) { return (ins + 255) / 256 * 256; }

// Of each row for every 256 columns: eight sums, each of two f16.
inline constexpr int kRowSumBytes = 32;

// Activations as f16, their sums, and a float a row.
inline int64_t gemm_q_workspace_bytes(int rows, int64_t ins) {
  const int tile = gemm_q_tile_rows(rows), padded = (rows + tile - 1) / tile * tile;
  const int64_t cols = gemm_q_padded_cols(ins);
  return padded * (cols * 2 + cols / 256 * kRowSumBytes + 4);
}

}  // namespace skald::cuda
