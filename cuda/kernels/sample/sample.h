// Picks a token from each row of logits, as engine/sampling/sampler.h says and with the same
// result. What the device cannot do with the same bits (logarithms, random numbers) the host does
// before and after: it sends u and log(min_p), and turns logits and totals into log-probabilities.
#pragma once

#include "cuda/kernels/launch.h"
#include "engine/base/half.h"

namespace skald::cuda {

inline constexpr int kMostTopTokens = 20;      // reported beside the picked one
inline constexpr int kMostAdjustments = 1024;  // biased and penalized tokens of a row

// A token whose logit changes: first the bias is added, then, if it occurs in the history, the
// penalties apply. Entries of one token are adjacent; each adds its bias, the first has the count.
struct TokenAdjustment {
  int32_t token;
  int32_t count;  // in the history; 0: no penalty
  float bias;     // finite or -inf
};

// Which tokens a grammar allows, a bit each (SampleContext::allowed).
SKALD_HD inline constexpr int64_t mask_words(int64_t vocab) { return (vocab + 63) / 64; }

// What the host knows of a step's row before its token.
struct NextRow {
  int32_t position, page;
  int32_t page_entry;  // index into the page table
};

// SamplingParams of one row, checked by validate(), without typical_p.
struct SampleRow {
  double u;         // the random number, in [0, 1)
  int32_t skipped;  // nothing is picked, and the result stays as it is
  int32_t masked;   // what may be picked is in the row's mask
  int32_t forced;   // the token to be picked, whatever the rest says; -1: none
  float temperature;
  float top_p;
  float log_min_p;  // -inf: off
  int32_t top_k;    // 0: off; below the vocabulary
  float repeat_penalty, presence_penalty, frequency_penalty;
  int32_t adjustments;  // at most kMostAdjustments
  int32_t top_tokens;   // at most kMostTopTokens
  NextRow next;         // where the launch has a NextStep
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
  float logit;  // the model's own, as are all below
};

struct SampleResult {
  SampleStatus status;  // written last: a host that sees it may read the rest, and change settings
  int32_t token;
  float logit;         // of the token
  float best;          // the largest logit
  uint64_t total;      // token_weight() of all, at temperature 1
  int32_t bad;         // NotFinite: how many logits are NaN or +inf,
  int32_t first_bad;   // and which is the first
  int32_t top_tokens;  // entries of top, best first
  TopToken top[kMostTopTokens];
};

// Room for so many rows: SampleRow of each, then the mask of each, then the adjustments of each.
inline constexpr int64_t sample_settings_bytes(int64_t rows, int64_t vocab) {
  return rows * (int64_t{sizeof(SampleRow) + kMostAdjustments * sizeof(TokenAdjustment)} +
                 mask_words(vocab) * int64_t{sizeof(uint64_t)});
}
inline constexpr int64_t sample_result_bytes(int64_t rows) {
  return rows * int64_t{sizeof(SampleResult)};
}

// A step's table, to which row i's token goes as sequence i's (0 where there is none to pick).
struct NextStep {
  int32_t *tokens, *positions, *sequences, *page_table;
};

// What the rows can be spread over.
struct SampleGpu {
  int most_blocks;  // of a cluster, a power of two up to 8; 1 where there are no clusters
  int multiprocessors;
  int64_t most_shared_bytes;  // of a block
};

// How a row is spread.
struct SampleShape {
  int blocks;         // for a row: a cluster
  bool in_shared;     // they hold it in shared memory; else one block reads it from `logits` again
                      // and again, and changes adjusted logits there until it is done
  int64_t row_bytes;  // of shared memory, a block
};
SampleShape sample_shape(int64_t vocab, int rows, const SampleGpu& gpu);

// How many rows a launch may have so that they are held in shared memory; 0: not one.
int most_rows_in_shared(int64_t vocab, const SampleGpu& gpu);

struct SampleLaunch {
  float* logits;  // [count, vocab]; the same after as before
  int64_t vocab;  // at most kMostWeighedTokens
  SampleShape shape;
  int count;
  const SampleRow* rows;               // [count], masked only where in_shared
  const uint64_t* masks;               // [count, mask_words(vocab)]
  const TokenAdjustment* adjustments;  // [count, kMostAdjustments]
  SampleResult* results;               // [count]; in page-locked memory of the host, or
  bool tells_host = true;  // not: what follows need not wait until the host can see them
  NextStep next = {};      // or null
};
void launch_sample(const SampleLaunch& launch, Stream stream);

// The same for rows of temperature 0 that ask for nothing else: no mask, no adjustments, no top
// tokens, none forced or skipped; whatever the shape. Whether the current GPU, one with clusters,
// has room for it.
bool has_sample_greedy(int64_t vocab);
void launch_sample_greedy(const SampleLaunch& launch, Stream stream);

// Copies results to page-locked memory of the host.
void launch_tell_host(const SampleResult* results, SampleResult* host, int count, Stream stream);

}  // namespace skald::cuda
