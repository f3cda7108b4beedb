// Attention of a few rows over a paged cache, for one thread. Softmax goes page by page, with pages
// at fixed positions, so a row's result depends on nothing but its own position. Rows of one tile
// share the converted keys and values; all query heads of a key head do.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/cpu/kernels.h"

namespace skald::cpu {

struct AttentionTile {
  const AttentionArgs* args;
  int64_t first_row, rows;  // of one sequence, positions one apart
  int64_t kv_head;
};

struct AttentionKernels {
  void (*attend)(const AttentionTile& tile, float* scratch);
  void (*to_f16)(const float* from, uint16_t* to, int64_t count);
};

inline constexpr int64_t kAttentionRows = 16;  // of a tile, at most
int64_t attention_scratch_floats(const AttentionSpec& spec);

const AttentionKernels& attention_kernels();

}  // namespace skald::cpu
