#include "engine/sampling/sampling_params.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "engine/base/error.h"

namespace skald {
namespace {

template <class T>
void require(bool holds, const char* what, const char* expected, T found) {
  if (!holds) fail(Exit::Usage, what, ": expected ", expected, ", found ", found);
}

}  // namespace

void validate(const SamplingParams& params, int64_t vocab) {
  const auto share = [](float p) { return p > 0 && p <= 1; };  // false for NaN
  const auto finite = [](float x) { return std::isfinite(x); };
  require(finite(params.temperature) && params.temperature >= 0, "temperature",
          "a finite number, 0 or more", params.temperature);
  require(params.top_k >= -1, "top_k", "a count, or 0 for no limit", params.top_k);
  require(share(params.top_p), "top_p", "a number above 0 and up to 1", params.top_p);
  require(params.min_p == 0 || share(params.min_p), "min_p", "a number from 0 to 1", params.min_p);
  require(share(params.typical_p), "typical_p", "a number above 0 and up to 1", params.typical_p);
  require(params.repeat_last_n >= -1, "repeat_last_n",
          "a count of tokens, 0 for none or -1 for all", params.repeat_last_n);
  require(finite(params.repeat_penalty) && params.repeat_penalty > 0, "repeat_penalty",
          "a finite number above 0", params.repeat_penalty);
  require(finite(params.presence_penalty), "presence_penalty", "a finite number",
          params.presence_penalty);
  require(finite(params.frequency_penalty), "frequency_penalty", "a finite number",
          params.frequency_penalty);
  require(params.top_logprobs >= 0 && params.top_logprobs <= vocab, "top_logprobs",
          "a count from 0 to the size of the vocabulary", params.top_logprobs);
  std::unordered_map<int32_t, float> infinite;
  for (const auto& [id, bias] : params.logit_bias) {
    if (id < 0 || id >= vocab) {
      fail(Exit::Usage, "logit_bias: expected token ids from 0 to ", vocab - 1, ", found ", id);
    }
    if (std::isnan(bias)) {
      fail(Exit::Usage, "logit_bias: expected a number for token ", id, ", found nan");
    }
    if (std::isinf(bias) && infinite.emplace(id, bias).first->second != bias) {
      fail(Exit::Usage, "logit_bias: expected token ", id,
           " to be forced (+inf) or banned (-inf), found both");
    }
  }
}

bool penalizes(const SamplingParams& params) {
  return params.repeat_last_n != 0 && (params.repeat_penalty != 1 || params.presence_penalty != 0 ||
                                       params.frequency_penalty != 0);
}

std::span<const int32_t> penalized_history(const SamplingParams& params,
                                           std::span<const int32_t> history) {
  if (params.repeat_last_n < 0) return history;
  return history.last(std::min(history.size(), static_cast<size_t>(params.repeat_last_n)));
}

}  // namespace skald
