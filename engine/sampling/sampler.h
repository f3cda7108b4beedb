// Picks the next token from a row of logits.
//
// The stages are those of llama.cpp's default chain that exist here: what a grammar allows, logit
// bias, penalties, top-k, typical, top-p, min-p, temperature, draw. Each stage sees the tokens that
// the stage before it kept, renormalized; at least one token always survives. The draw takes one
// random number of engine/base/rng.h, keyed by (seed, request, position), and inverts the
// cumulative distribution over the survivors, most probable first, ties by lower id. Sums are exact
// (engine/sampling/token_weight.h), so the same logits give the same token on any machine, next to
// any other requests, and on a GPU.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "engine/sampling/sampling_params.h"

namespace skald {

struct SampleContext {
  uint64_t request = 0;              // id of the request: selects a stream of random numbers
  int64_t position = 0;              // position of the token to pick; 0 <= position < 2^48
  std::span<const int32_t> history;  // prompt and generated ids, newest last; ids that have no
                                     // logit are ignored
  std::span<const uint64_t> allowed = {};  // bit i % 64 of word i / 64: token i may be picked,
                                           // tokens beyond it may not; empty: all may
};

// Log-probabilities are the model's own: log-softmax of the raw logits, before bias, penalties,
// filters and temperature.
struct Picked {
  int32_t token = 0;
  float logprob = 0;
  // Best first, ties by lower id; without masked tokens.
  std::vector<std::pair<int32_t, float>> top;
};

namespace sampling {

struct Candidate {
  float logit;
  int32_t id;
};

// Logits after bias and penalties, and the largest of them.
struct Row {
  std::span<const float> logits;  // [vocab]
  float best;
  float model_best;  // the largest logit before bias and penalties
};

struct Survivors {
  float best;      // the largest logit
  uint64_t total;  // sum of the survivors' token_weight()
};

// The Errors of pick(), also for a sampler on a GPU.
[[noreturn]] void fail_not_finite(int64_t bad, int64_t vocab, int64_t first_bad);
[[noreturn]] void fail_all_masked(int64_t vocab);
[[noreturn]] void fail_all_banned();
[[noreturn]] void fail_all_forbidden();

}  // namespace sampling

// Owns scratch memory, so that after the first pick picking allocates nothing. Any sequence may use
// any Sampler; one thread at a time.
class Sampler {
 public:
  // `params` must have passed validate() with logits.size(). Pass only the logits of tokens that
  // exist: if a model pads its vocabulary, cut the row. A logit of -inf masks its token. NaN, +inf,
  // no token left, or more than kMostWeighedTokens logits throw Error(Exit::Failed). The result is
  // valid until the next call.
  const Picked& pick(std::span<const float> logits, const SamplingParams& params,
                     const SampleContext& context);

  // The survivors from which pick() draws and their probabilities, best first. For tests and tools.
  std::vector<std::pair<int32_t, double>> distribution(std::span<const float> logits,
                                                       const SamplingParams& params,
                                                       const SampleContext& context);

 private:
  sampling::Row adjust(std::span<const float> logits, const SamplingParams& params,
                       const SampleContext& context);
  void penalize(const SamplingParams& params, std::span<const int32_t> history);
  sampling::Survivors collect(const sampling::Row& row, const SamplingParams& params,
                              std::optional<double> u);
  int32_t draw(const sampling::Row& row, const SamplingParams& params, double u);

  std::vector<float> adjusted_;                  // [vocab]
  std::vector<uint32_t> counts_;                 // [vocab]; all zero between calls
  std::vector<sampling::Candidate> candidates_;  // at most vocab
  Picked picked_;
};

}  // namespace skald
