// The bytes of each buffer of an executor. Calls no CUDA. The executor allocates by these numbers
// and the memory plan adds up the same numbers, so that neither can forget a buffer.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "cuda/kernels/attention/attention.h"
#include "cuda/kernels/linear.h"
#include "cuda/plan/fused_program.h"
#include "cuda/plan/place.h"
#include "engine/memory/memory_plan.h"
#include "engine/quant/cache_row.h"

namespace skald::cuda {

// Rows per product of a reproducible executor (CublasPart::pinned).
inline constexpr int64_t kWholeProductRows = kPinnedRows;

// Weights are uploaded through kStagings page-locked buffers in turn. Loading also takes kStagings
// buffers on the GPU for floats to quantize, and one for blocks to pack.
inline constexpr int kStagings = 4;
inline constexpr int64_t kStagingBytes = 16 << 20;
inline constexpr int64_t kLoadingBytes = (kStagings + 1) * kStagingBytes;

inline constexpr int64_t kSpareBytes = 128 << 20;  // bytes of an executor's SpareMemory

// Everything that the sizes depend on besides the model.
struct SizeOptions {
  int64_t rows = 0;           // most rows of a step
  int64_t context = 0;        // most tokens of a sequence
  int sequences = 1;          // most sequences at a time
  int checkpoints = 0;        // RunOptions::checkpoints
  int64_t cache_tokens = 0;   // tokens of all sequences together; 0: sequences * context
  bool scores = false;        // sequences are scored: room for the logits of more rows
  bool reproducible = false;  // buffers have rows for whole products of kWholeProductRows
  int multiprocessors = 0;
  AttentionCode attention = AttentionCode::Plain;
  CacheTypeRequest cache_types = {};  // default: the activations' type
  bool copies = false;                // 16-bit copies of quantized matrices, for steps of many rows
  PlaceRequest place = {};
};

// The size of an allocation or of a part of one: device buffers begin at multiples of 256 bytes.
inline int64_t padded(int64_t bytes) { return (bytes + 255) / 256 * 256; }

// Offsets in bytes of a step's lists in their buffer. The page table is the last list, so that one
// copy can end after the pages of the step's sequences. Behind it are the rows that a step is
// given.
struct StepLayout {
  int64_t tokens = 0, positions = 0, sequences = 0, wanted = 0;  // room for all rows
  int64_t begins = 0, slots = 0;  // room for all sequences, and for one more
  std::vector<int64_t> tiles;     // one for each attention spec
  int64_t page_table = 0;         // [most_sequences, pages]
  int64_t pages = 0, most_sequences = 0;
  int64_t given = 0, given_cols = 0;  // [rows, given_cols], float: SeqRows::given
  int64_t bytes = 0;
};

// Sizes for the largest layer of routed experts.
struct ExpertSizes {
  int64_t logits = 0;         // [rows, count], float
  int64_t router_logits = 0;  // RouterPart::logits
  int64_t choices = 0;        // each of four lists: one number per row and chosen expert
  int64_t begins = 0;         // [count + 1], then the number of tiles
  int64_t tiles = 0;          // Routing::tiles
  int64_t slots = 0;          // [count]: ChooseSlotsLaunch::slots
  int64_t moves = 0;          // [2 + 2 * count]: ChooseSlotsLaunch::moves
  int64_t tickets = 0;
  int64_t gated = 0;  // [places, ffn_dim]
  int64_t pairs = 0;  // [places, 2 * ffn_dim], if gate and up are two stacks; or placed rows
  int64_t sums = 0;   // [places, dim], float; or placed rows

  int64_t lists() const {
    return padded(logits) + padded(router_logits) + 4 * padded(choices) + padded(begins) +
           padded(tiles) + padded(tickets) + padded(slots) + padded(moves);
  }
  int64_t rows() const { return padded(gated) + padded(pairs) + padded(sums); }
};

struct Sizes {
  Sizes(const FusedProgram& fused, const SizeOptions& options);

  int64_t logit_rows = 0;  // most rows whose logits are computed at once
  int graph_rows = 0;      // most rows of a decode step

  Placement placement;   // where weights lie, and their bytes
  int64_t copies = 0;    // 16-bit copies of all quantized matrices that are multiplied
  int64_t expanded = 0;  // 16-bit rows of one matrix, if there are no copies
  int64_t product = 0;   // gemm_q_sm90's workspace
  int64_t carried = 0;   // GemmQPart::carried
  CacheTypes cache_types;
  int64_t page = 0;                 // one cache page, all layers
  std::vector<int64_t> kv_offsets;  // PageLayout::offsets
  // A page of the plain cache of one layer, the largest one; 0: the cache itself is plain.
  int64_t plain_page = 0;
  int64_t pages = 0;
  std::vector<int64_t> state_offsets;  // of each layer with a state, in floats
  int64_t slot_floats = 0;             // the states of one sequence
  int64_t slots = 0;
  int64_t delta_factors = 0;  // DeltaLaunch::factors, for the largest delta net
  std::vector<int64_t> acts;  // one per buffer of the program, [rows, cols]
  int64_t pairs = 0;          // [rows, outs], gate and up before the activation
  int64_t wanted = 0;         // [rows, dim], float
  ExpertSizes experts;
  int64_t logits = 0;       // [logit_rows, vocab]
  int64_t logits_part = 0;  // [logit_rows, own rows of the head], in a shard
  int64_t attention = 0, tickets = 0;
  int64_t product_tickets = 0;  // one integer for each piece of a product, and one for signals
  int64_t sampling = 0;         // settings and results of logit_rows rows
  int64_t scored = 0;           // [logit_rows, dim], float
  int64_t scoring = 0;          // lists and sums for all rows
  int64_t mail = 0;             // of a rank, for the exchange with others
  StepLayout step;

  int64_t cache() const { return bytes_product(page, pages); }
  int64_t plain_cache() const { return bytes_product(plain_page, pages); }
  // The types of a cache of codes, if the cache is one.
  std::optional<CacheTypes> coded() const {
    return plain_page > 0 ? std::optional(cache_types) : std::nullopt;
  }
  int64_t states() const { return bytes_product(slot_floats * 4, slots); }
  int64_t activations() const;
};

}  // namespace skald::cuda
