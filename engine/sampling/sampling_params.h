// What a request may say about sampling. engine/sampling/sampler.h says in which order the stages
// apply.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace skald {

// Changes the output. Spelled as llama.cpp's users know them.
struct SamplingParams {
  float temperature = 0.8f;  // 0: greedy, the best token after bias and penalties (ties: lowest
                             // id); the filters below are then not asked
  int top_k = 40;            // keep the k best; 0 or -1: off
  float top_p = 0.95f;       // keep the fewest best tokens that hold this much together; 1: off
  float min_p = 0.05f;       // keep tokens at least this probable relative to the best; 0: off
  float typical_p = 1;       // keep the tokens whose surprise is nearest to the entropy until they
                             // hold more than this together; 1: off

  // Over the last repeat_last_n tokens of the history (-1: all, 0: none), prompt included.
  int repeat_last_n = 64;
  float repeat_penalty = 1;     // divides positive logits, multiplies the others
  float presence_penalty = 0;   // subtracted once
  float frequency_penalty = 0;  // subtracted for every occurrence

  // Added to the logits; an id given twice adds up. -inf bans a token. +inf forces it: all tokens
  // without +inf are banned, and the forced ones compete as usual.
  std::vector<std::pair<int32_t, float>> logit_bias;

  uint64_t seed = 0;
  int top_logprobs = 0;  // how many of the best tokens to report beside the picked one
};

// Throws Error(Exit::Usage) that names the parameter, what was expected and what was found.
void validate(const SamplingParams& params, int64_t vocab);

// Whether any penalty can change a logit.
bool penalizes(const SamplingParams& params);

// The last repeat_last_n tokens, which the penalties look at.
std::span<const int32_t> penalized_history(const SamplingParams& params,
                                           std::span<const int32_t> history);

}  // namespace skald
