// Makes a matrix of its parts: one function for each layout that tools write.
#pragma once

#include "models/checkpoints/method.h"
#include "models/checkpoints/parts.h"
#include "models/checkpoints/rows.h"

namespace skald {

// Each throws an Error that names the tensor if parts are missing, do not fit together or mean
// something else. The parts' bytes must live as long as the matrix.

// GPTQ: words of integers down the columns, groups of columns, perhaps in another order (g_idx).
QuantizedMatrix gptq_matrix(const Parts& parts, const QuantMethod& method);
// AWQ: words of eight integers along the rows.
QuantizedMatrix awq_matrix(const Parts& parts, const QuantMethod& method);
// compressed-tensors: integers in words, integers in bytes.
QuantizedMatrix packed_int_matrix(const Parts& parts, const QuantMethod& method);
QuantizedMatrix int8_matrix(const Parts& parts, const QuantMethod& method);
// FP8 with a scale for the matrix, for each row or for each block.
QuantizedMatrix fp8_matrix(const Parts& parts, const QuantMethod& method);
// FP4 with FP8 scales of 16 columns and a scale of the matrix: compressed-tensors' and ModelOpt's.
QuantizedMatrix nvfp4_packed_matrix(const Parts& parts);
QuantizedMatrix nvfp4_matrix(const Parts& parts);
// FP4 with scales of 32 columns that are powers of two.
QuantizedMatrix mxfp4_matrix(const Parts& parts);
// bitsandbytes: NF4 or FP4 by a table, and integers with a scale for each row.
QuantizedMatrix table4_matrix(const Parts& parts);
QuantizedMatrix row_int8_matrix(const Parts& parts);

}  // namespace skald
