// The layout and the size of gemm_q_sm90's activations before they are multiplied. Arithmetic
// alone, for memory plans.
#pragma once

#include <cstdint>

namespace skald::cuda {

inline constexpr int kGemmQMostRows = 256;

// Dynamic shared memory of a block, so that one of attention_decode has room beside it.
inline constexpr int kBytesBesideAttention = 112 * 1024;

inline int gemm_q_tile_rows(int rows) {
  return rows <= 8 ? 8 : rows <= 16 ? 16 : rows <= 32 ? 32 : rows <= 64 ? 64 : 128;
}

// The sums of a row for 256 columns: eight sums, two f16 each.
inline constexpr int kRowSumBytes = 32;

// The memory of activations, from its beginning:
// - f16 [row_tiles, cols / 64, tile_rows, 64], with the 16-byte units of each row swapped as
//   wgmma.cuh says. Columns are padded with zeros. Of each 16 columns the first 8 are 0, 1, 4, 5,
//   8, 9, 12, 13: a lane's four columns of weights are its two pairs of a product. The other 8 are
//   divided by kOddColumns.
// - [row_tiles, cols / 256, tile_rows, 16] sums of 32 columns, each the nearest f16 and the
//   difference; swapped too. If the kernel ahead has stored the activations (LeftRows): the sums of
//   the first 16 and of the second 16 of these columns.
// - a float a row, which results are multiplied by.
//
// If one product stores activations for the next, two more: a float a row, the factor of its last
// norm; and [rows, cols / 32] sums of the squares of 32 columns.
struct GemmQPlaces {
  int64_t cols;  // a multiple of 256
  int64_t sums, scales, norms, squares, end;

  GemmQPlaces() = default;
  GemmQPlaces(int rows, int64_t ins) : cols((ins + 255) / 256 * 256) {
    const int tile = gemm_q_tile_rows(rows);
    const int64_t padded = (rows + tile - 1) / tile * tile;
    sums = padded * cols * 2;
    scales = sums + padded * (cols / 256) * kRowSumBytes;
    norms = scales + padded * 4;
    squares = norms + padded * 4;
    end = squares + padded * (cols / 32) * 4;
  }
};

// The place in a product's workspace where the kernel ahead stores the product's activations, so
// that no kernel has to prepare them. All rows are multiplied by one power of two, which brings a
// bound on the kernel's results below 2^15, so that no f16 overflows.
struct LeftRows {
  char* memory = nullptr;  // null: no activations are stored
  GemmQPlaces at;
  int tile_rows = 0;
  float up = 1;   // the power of two
  float odd = 1;  // the product's kOddColumns
};

inline int64_t gemm_q_workspace_bytes(int rows, int64_t ins) {
  return GemmQPlaces(rows, ins).norms;
}
inline int64_t gemm_q_handed_bytes(int rows, int64_t ins) { return GemmQPlaces(rows, ins).end; }

}  // namespace skald::cuda
