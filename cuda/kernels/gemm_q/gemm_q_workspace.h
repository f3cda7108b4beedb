// Where gemm_q_sm90 has activations before it multiplies them, and how much memory that is:
// arithmetic alone, for plans.
#pragma once

#include <cstdint>

namespace skald::cuda {

inline constexpr int kGemmQMostRows = 256;

// Dynamic shared memory of a block beside which one of attention_decode has room.
inline constexpr int kBytesBesideAttention = 112 * 1024;

inline int gemm_q_tile_rows(int rows) {
  return rows <= 8 ? 8 : rows <= 16 ? 16 : rows <= 32 ? 32 : rows <= 64 ? 64 : 128;
}

// Of each row for every 256 columns: eight sums, each of two f16.
inline constexpr int kRowSumBytes = 32;

// From the memory's beginning: f16 [row_tiles, cols / 64, tile_rows, 64] with each row's 16-byte
// units swapped as wgmma.cuh says; then of each row for every 256 columns the sums of 32, as the
// f16 next to each and what is left (of rows that are left by the kernel ahead: the sums of the
// first and of the second 16), [row_tiles, cols / 256, tile_rows, 16], swapped too; then a float a
// row, with which results are to be multiplied. Columns are filled up with zeros. Of each 16, the
// first 8 are columns 0, 1, 4, 5, 8, 9, 12, 13: a lane's four columns of weights are its two pairs
// of a product. The others are divided by kOddColumns.
//
// What one product leaves for the next has two more: a float a row, the factor of its last norm;
// and of each 32 columns the sum of their squares, [rows, cols / 32].
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

// Where the kernel ahead of a product leaves that one's activations in its workspace, so that
// nothing has to prepare them. What the kernel computes is bounded, and all rows are multiplied by
// one power of two that keeps the bound below 2^15: no f16 can overflow.
struct LeftRows {
  char* memory = nullptr;  // none: nothing is left
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
