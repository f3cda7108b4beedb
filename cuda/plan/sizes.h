// How many bytes each buffer of an executor has: arithmetic alone, no CUDA. The executor allocates
// by these numbers, and a plan adds them up, so that neither can know of a buffer that the other
// forgot.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "cuda/kernels/attention/attention.h"
#include "cuda/kernels/linear.h"
#include "cuda/plan/fused_program.h"
#include "engine/memory/memory_plan.h"

namespace skald::cuda {

// Rows that a reproducible executor's products have at a time (CublasPart::pinned).
inline constexpr int64_t kWholeProductRows = kPinnedRows;

// Weights are uploaded through so many page-locked buffers in turns. On the GPU there are,
// meanwhile, as many for floats that are to be quantized, and one for blocks that are to be packed.
inline constexpr int kStagings = 4;
inline constexpr int64_t kStagingBytes = 16 << 20;
inline constexpr int64_t kLoadingBytes = (kStagings + 1) * kStagingBytes;

inline constexpr int64_t kSpareBytes = 128 << 20;  // of an executor's SpareMemory

// What the sizes depend on beside the model.
struct SizeOptions {
  int64_t rows = 0;           // at most in one step
  int64_t context = 0;        // tokens of a sequence
  int sequences = 1;          // at a time
  int64_t cache_tokens = 0;   // of all together; 0: a full context for each
  bool scores = false;        // whole texts: room for the logits of more rows
  bool reproducible = false;  // buffers have rows for whole products of kWholeProductRows
  int multiprocessors = 0;
  AttentionCode attention = AttentionCode::Plain;
  std::optional<DType> cache_type = {};  // that of the activations where it is not given
  bool copies = false;  // 16-bit ones of quantized matrices, for steps of many rows
};

// Every allocation on the device, and every part of a larger one, begins at a multiple of this.
inline int64_t padded(int64_t bytes) { return (bytes + 255) / 256 * 256; }

// Where the lists of a step lie, in bytes from the start of their buffer. The page table is last:
// only the rows that a step uses are sent.
struct StepLayout {
  int64_t tokens = 0, positions = 0, sequences = 0, wanted = 0;  // room for all rows
  std::vector<int64_t> tiles;                                    // one for each attention spec
  int64_t page_table = 0;                                        // [most_sequences, pages]
  int64_t pages = 0, most_sequences = 0;
  int64_t bytes = 0;
};

// What routed experts take, for the program's largest.
struct ExpertSizes {
  int64_t logits = 0;   // [rows, count], float
  int64_t choices = 0;  // one list of a number for each
  int64_t begins = 0;   // [count + 1]
  int64_t tickets = 0;
  int64_t gated = 0;  // [places, ffn_dim]
  int64_t pairs = 0;  // [places, 2 * ffn_dim], where gate and up are apart
  int64_t sums = 0;   // [places, dim], float

  int64_t lists() const {
    return padded(logits) + 4 * padded(choices) + padded(begins) + padded(tickets);
  }
  int64_t rows() const { return padded(gated) + padded(pairs) + padded(sums); }
};

struct Sizes {
  Sizes(const FusedProgram& fused, const SizeOptions& options);

  int64_t logit_rows = 0;  // whose logits are computed at a time
  int graph_rows = 0;      // most rows of a decode step

  int64_t weights = 0;
  int64_t copies = 0;    // of all quantized matrices that are multiplied
  int64_t expanded = 0;  // rows of one, where there are no copies
  int64_t product = 0;   // gemm_q_sm90's workspace
  int64_t carried = 0;   // GemmQPart::carried
  DType cache_type = DType::F32;
  int64_t page = 0;                 // all layers of one cache page
  std::vector<int64_t> kv_offsets;  // of each layer in a page
  int64_t pages = 0;
  std::vector<int64_t> acts;  // one a buffer of the program, [rows, cols]
  int64_t pairs = 0;          // [rows, outs], gate and up before the activation
  int64_t wanted = 0;         // [rows, dim], float
  ExpertSizes experts;
  int64_t logits = 0;  // [logit_rows, vocab]
  int64_t attention = 0, tickets = 0;
  int64_t product_tickets = 0;  // one integer for each piece of a product, and one
  int64_t sampling = 0;         // for logit_rows
  int64_t scored = 0;           // [logit_rows, dim], float
  int64_t scoring = 0;          // lists and sums for all rows
  StepLayout step;

  int64_t cache() const { return bytes_product(page, pages); }
  int64_t activations() const;
};

}  // namespace skald::cuda
