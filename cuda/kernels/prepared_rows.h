// The layout and size of the activations that gemm_q_sm90 multiplies. Plans need it, so it is free
// of CUDA.
#pragma once

#include <cstdint>

namespace skald::cuda {

inline constexpr int kGemmQMostRows = 256;

// Dynamic shared memory of a block of gemm_q_sm90 that leaves room for a block of attention_decode.
inline constexpr int kBytesBesideAttention = 112 * 1024;

inline int gemm_q_tile_rows(int rows) {
  return rows <= 8 ? 8 : rows <= 16 ? 16 : rows <= 32 ? 32 : rows <= 64 ? 64 : 128;
}

// A row has eight sums for every 256 columns, each stored as two f16.
inline constexpr int kRowSumBytes = 32;

// Offsets in bytes from the memory's beginning:
// 0        f16 [row_tiles, cols / 64, tile_rows, 64]; the 16-byte units of each row are swapped as
//          wgmma.cuh says. Columns beyond the row are zeros. Of each 16 columns, the first 8 places
//          hold columns 0, 1, 4, 5, 8, 9, 12, 13, since a lane's four columns of weights are its
//          two pairs of a product; the other columns are divided by kOddColumns.
// sums     [row_tiles, cols / 256, tile_rows, 16], swapped too: the sum of each 32 columns as the
//          nearest f16 and the difference; or, of prepared rows that another kernel wrote, the sums
//          of the first and of the second 16 columns.
// scales   a float per row: results are multiplied by it.
// norms    carried rows only: a float per row, the factor of the row's last norm.
// squares  carried rows only: [rows, cols / 32], the sum of the squares of each 32 columns.
struct PreparedLayout {
  int64_t cols;  // a multiple of 256
  int64_t sums, scales, norms, squares, end;

  PreparedLayout() = default;
  PreparedLayout(int rows, int64_t ins) : cols((ins + 255) / 256 * 256) {
    const int tile = gemm_q_tile_rows(rows);
    const int64_t padded = (rows + tile - 1) / tile * tile;
    sums = padded * cols * 2;
    scales = sums + padded * (cols / 256) * kRowSumBytes;
    norms = scales + padded * 4;
    squares = norms + padded * 4;
    end = squares + padded * (cols / 32) * 4;
  }
};

// Tells the kernel before a product to write its results as prepared rows to the product's
// workspace. The product then needs no kernel that prepares activations. The results are bounded,
// and all rows are multiplied by one power of two that keeps the bound below 2^15, so that no f16
// overflows.
struct PreparedRows {
  char* memory = nullptr;  // null: the kernel writes its usual output
  PreparedLayout at;
  int tile_rows = 0;
  float up = 1;   // the power of two by which activations are multiplied
  float odd = 1;  // the weights' kOddColumns (tiles/)
};

inline int64_t gemm_q_workspace_bytes(int rows, int64_t ins) {
  return PreparedLayout(rows, ins).norms;
}
inline int64_t gemm_q_carried_bytes(int rows, int64_t ins) { return PreparedLayout(rows, ins).end; }

}  // namespace skald::cuda
