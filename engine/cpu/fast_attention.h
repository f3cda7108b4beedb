// Attention of a few rows over a paged KV cache, on one thread. Softmax runs page by page, and
// pages begin at fixed positions, so the result of a row depends only on its own position. The rows
// of a tile and all query heads of a KV head share the converted keys and values.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/cpu/kernels.h"

namespace skald::cpu {

struct AttentionTile {
  const AttentionArgs* args;
  int64_t first_row, rows;  // rows of one sequence at consecutive positions
  int64_t kv_head;
};

struct AttentionKernels {
  void (*attend)(const AttentionTile& tile, float* scratch);
  void (*to_f16)(const float* from, uint16_t* to, int64_t count);
};

inline constexpr int64_t kAttentionRows = 16;  // most rows of a tile
// The floats of a thread's scratch, at least the head_dim of append_row().
int64_t attention_scratch_floats(const AttentionSpec& spec, const CacheTypes& types);

const AttentionKernels& attention_kernels();

}  // namespace skald::cpu
