// NumPy's file format 1.0: a matrix of little-endian float32 in C order.
#pragma once

#include <cstdint>
#include <string>

namespace skald {

// The head of the file: 128 bytes, after which the numbers follow.
std::string npy_header(int64_t rows, int64_t cols);

// Makes `npy` of a file of plain results whose vectors are in base64: a row for each text, in the
// order of the file. `npy` appears when it is whole. Returns the number of rows. Throws Error.
int64_t write_npy(const std::string& results, const std::string& npy, int64_t cols);

}  // namespace skald
