// What the executor calls: one launcher a kernel, plain structs, no CUDA syntax. Launchers check
// the launch, never allocate and never synchronize. Device pointers throughout, shapes beside them.
//
// Activations have one type for the whole model, that of its weights (f16, bf16, or f32); the
// residual stream x and logits are f32. Everything that changes from step to step (tokens,
// positions, page tables, lengths) is read from device memory, so that a captured graph of these
// launches stays valid.
#pragma once

#include <cstdint>

#include "cuda/gpu/stream.h"
#include "cuda/kernels/gemm_q/gemm_q_workspace.h"
#include "engine/program/specs.h"
#include "engine/quant/dtype.h"

namespace skald::cuda {

// The rows of one step. Arrays have room for the most rows and sequences of the executor.
struct StepTable {
  const int32_t* tokens;      // [rows]
  const int32_t* positions;   // [rows] in their sequences
  const int32_t* sequences;   // [rows] index into page_table; a sequence's rows are adjacent
  const int32_t* page_table;  // [sequences, pages_per_sequence] page numbers
  int pages_per_sequence;
};

// One layer's cache: page p starts at data + p * page_stride bytes and holds keys, then values,
// each [kv_heads, kPageTokens, head_dim] of AttentionLaunch::cache_type.
struct KvLayerView {
  void* data;
  int64_t page_stride;
};

// Up to `rows` query rows, adjacent in the step and in one sequence at consecutive positions.
struct AttentionTile {
  int32_t row;   // the first
  int32_t rows;  // 0: nothing to do
};

// Plain arithmetic (any type and GPU), mma.sync (sm_80), or wgmma where a kernel has it (sm_90a).
enum class AttentionCode : uint8_t { Plain, Mma, Wgmma };

struct AttentionLaunch {
  DType type;        // of qkv and out: F16, BF16 or F32
  DType cache_type;  // of keys and values in the cache
  void* qkv;  // [rows, (heads + 2 * kv_heads) * head_dim]: q, k and v side by side; q is scratch
  void* out;  // [rows, heads * head_dim]
  int rows;
  StepTable step;
  KvLayerView cache;
  AttentionSpec spec;
  const float* inv_freq;  // [rope_pairs]; rotates q and k first
  int rope_pairs;
  bool rope_interleaved;
  float rope_scale = 1;                              // of cosines and sines
  const float *q_norm = nullptr, *k_norm = nullptr;  // [head_dim]: each head is normed first
  float norm_eps = 0;
  AttentionCode code;  // attention_code(type)
  bool dependent;      // programmatic dependent launch: starts before the kernel ahead has finished
  int multiprocessors;  // of the device; for decode, and for prompts on sm_90a

  // Decode only.
  int depth;         // no row has more tokens; with rows, fixes the grid
  float* workspace;  // attention_workspace_floats() floats
  int* tickets;      // attention_tickets() integers, zero before and after each launch
  LeftRows leaves;   // where attention_leaves_rows(): in place of `out`

  // Prefill only, and not of code Plain: from build_attention_tiles(), on the device.
  const AttentionTile* tiles;
  int tile_count;  // fixes the grid
};

}  // namespace skald::cuda
