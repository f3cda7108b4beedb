// Picks a token from each row of logits, with the same result as engine/sampling/sampler.h. The
// host computes logarithms and random numbers, because the device would get other bits: it sends u
// and log(min_p) before, and turns logits and totals into log-probabilities afterwards.
#pragma once

#include <cstdint>

#include "cuda/gpu/stream.h"
#include "engine/base/half.h"

namespace skald::cuda {

inline constexpr int kMostTopTokens = 20;      // reported beside the picked one
inline constexpr int kMostAdjustments = 1024;  // biased and penalized tokens of a row

// A token whose logit changes. First the bias is added, then the penalties apply if the token
// occurs in the history. Entries of one token are adjacent: each adds its bias, and the first has
// the count.
struct TokenAdjustment {
  int32_t token;
  int32_t count;  // in the history; 0: no penalty
  float bias;     // finite or -inf
};

// Words of a mask with one bit per token, set if a grammar allows the token
// (SampleContext::allowed).
SKALD_HD inline constexpr int64_t mask_words(int64_t vocab) { return (vocab + 63) / 64; }

// The row of the next step, as far as the host knows it before the token is picked.
struct NextRow {
  int32_t position, page;
  int32_t page_entry;  // index into the page table
  int32_t slot;        // of the recurrent state; -1: none
};

// SamplingParams of one row, checked by validate(), without typical_p.
struct SampleRow {
  double u;         // the random number, in [0, 1)
  int32_t skipped;  // nothing is picked, and the result stays as it is
  int32_t masked;   // only the tokens in the row's mask may be picked
  int32_t forced;   // this token is picked whatever the other settings; -1: none
  float temperature;
  float top_p;
  float log_min_p;  // -inf: off
  int32_t top_k;    // 0: off; below the vocabulary
  float repeat_penalty, presence_penalty, frequency_penalty;
  int32_t adjustments;  // at most kMostAdjustments
  int32_t top_tokens;   // at most kMostTopTokens
  NextRow next;         // used if the launch has a NextStep
};

enum class SampleStatus : int32_t {
  UnderWay,
  Picked,
  NotFinite,
  AllMasked,
  AllForbidden,
  AllBanned
};

struct TopToken {
  int32_t token;
  float logit;  // before adjustments, as are all logits below
};

struct SampleResult {
  SampleStatus status;  // written last; the host may then read the rest and change settings
  int32_t token;
  float logit;         // the token's logit
  float best;          // the largest logit
  uint64_t total;      // sum of token_weight(), at temperature 1
  int32_t bad;         // NotFinite: how many logits are NaN or +inf,
  int32_t first_bad;   // and which is the first
  int32_t top_tokens;  // entries of top, best first
  TopToken top[kMostTopTokens];
};

// Bytes for `rows` rows: a SampleRow of each, then the mask of each, then the adjustments of each.
inline constexpr int64_t sample_settings_bytes(int64_t rows, int64_t vocab) {
  return rows * (int64_t{sizeof(SampleRow) + kMostAdjustments * sizeof(TokenAdjustment)} +
                 mask_words(vocab) * int64_t{sizeof(uint64_t)});
}
inline constexpr int64_t sample_result_bytes(int64_t rows) {
  return rows * int64_t{sizeof(SampleResult)};
}

// The table of the next step. Sequence i gets row i's token, or 0 if no token was picked.
struct NextStep {
  int32_t *tokens, *positions, *sequences, *page_table, *begins, *slots;
};

// The resources of a GPU over which rows can be spread.
struct SampleGpu {
  int most_blocks;  // blocks of a cluster: a power of two up to 8; 1 without clusters
  int multiprocessors;
  int64_t most_shared_bytes;  // shared memory of a block
};

// How a row is spread over blocks.
struct SampleShape {
  int blocks;  // blocks of a row: a cluster
  // True: the blocks hold the row in shared memory. False: one block reads the row from `logits`
  // again and again, and changes adjusted logits there until it ends.
  bool in_shared;
  int64_t row_bytes;  // shared memory of a block for its slice of the row
};
SampleShape sample_shape(int64_t vocab, int rows, const SampleGpu& gpu);

// The most rows of a launch whose rows stay in shared memory; 0: none do.
int most_rows_in_shared(int64_t vocab, const SampleGpu& gpu);

struct SampleLaunch {
  float* logits;  // [count, vocab]; the same after as before
  int64_t vocab;  // at most kMostWeighedTokens
  SampleShape shape;
  int count;
  const SampleRow* rows;               // [count], masked only if shape.in_shared
  const uint64_t* masks;               // [count, mask_words(vocab)]
  const TokenAdjustment* adjustments;  // [count, kMostAdjustments]
  SampleResult* results;               // [count]
  bool results_on_host = true;         // `results` are in page-locked memory of the host
  NextStep next = {};                  // null pointers: there is no next step
};
void launch_sample(const SampleLaunch& launch, Stream stream);

// launch_sample_greedy() is for rows of temperature 0 without other settings: no mask, adjustments,
// top tokens, forced or skipped token. It ignores the shape. has_sample_greedy(): true if the
// current GPU has clusters and the vocabulary fits.
bool has_sample_greedy(int64_t vocab);
void launch_sample_greedy(const SampleLaunch& launch, Stream stream);

// Copies results to page-locked memory of the host, beside later launches.
void launch_copy_results(const SampleResult* results, SampleResult* host, int count, Stream stream);

}  // namespace skald::cuda
