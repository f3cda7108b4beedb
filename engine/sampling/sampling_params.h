// The sampling parameters of a request, and the one table that describes them. The table is the
// source of the command-line flags with their help, chat's /set, the fields of a batch line, the
// settings that `batch --resume` compares, the checks of validate(), and the decision which
// requests a GPU may sample. engine/sampling/sampler.h has the order in which the parameters apply.
//
// A new parameter is a member of SamplingParams, its row in sampling_params.cpp, and its code in
// sampler.cpp.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace skald {

using LogitBias = std::vector<std::pair<int32_t, float>>;  // token id, bias

struct SamplingParams {
  float temperature = 0.8f;  // 0: greedy, the best token after bias and penalties (ties: lowest
                             // id); the filters below then do not apply
  int top_k = 40;            // keep the k best; 0 or -1: off
  float top_p = 0.95f;       // keep the fewest best tokens that hold this much together; 1: off
  float min_p = 0.05f;       // keep tokens at least this probable relative to the best; 0: off
  float typical_p = 1;       // keep the tokens whose surprise is nearest to the entropy until they
                             // hold more than this together; 1: off

  // The penalties look at the last repeat_last_n tokens of the history, prompt included (-1: all).
  int repeat_last_n = 64;
  float repeat_penalty = 1;     // divides positive logits, multiplies the others
  float presence_penalty = 0;   // subtracted once
  float frequency_penalty = 0;  // subtracted for every occurrence

  // Added to the logits; an id given twice adds up. -inf bans a token. +inf forces it: all tokens
  // without +inf are banned, and the forced ones compete as usual.
  LogitBias logit_bias;

  uint64_t seed = 0;
  int top_logprobs = 0;  // number of best tokens to report besides the picked one
};

struct NumberRange {
  double least, most;
  bool above_least;      // `least` itself is not allowed
  const char* expected;  // for error messages, as "a number from 0 to 1"

  bool holds(double x) const {  // false for NaN
    return (above_least ? x > least : x >= least) && x <= most;
  }
};

// Who can apply a parameter. A request with a Host parameter that is not off is sampled on the
// host.
enum class SampledBy { DeviceOrHost, Host };

// A row of the table.
struct SamplingParameter {
  // The type of the member is the type of the parameter. uint64_t is a seed, from any integer.
  using Member = std::variant<int SamplingParams::*, float SamplingParams::*,
                              uint64_t SamplingParams::*, LogitBias SamplingParams::*>;
  Member member;
  std::string_view field;        // in JSON and in messages
  std::string_view other_field;  // a second name that batch lines may use; "": none
  std::string_view flags;  // on the command line, as "-s,--seed"; "": only a request can set it
  NumberRange range;       // range of an int or a float
  double off;              // value with which the parameter changes nothing; NaN: none
  SampledBy sampled_by;
  std::string_view help;  // one line, for --help and /set
};

std::span<const SamplingParameter> sampling_parameters();

// True if the parameter changes nothing. A list is off if it is empty.
bool is_off(const SamplingParameter& parameter, const SamplingParams& params);

// True if every host-only parameter is off. The device has further limits: see cuda/run/sampler.h.
bool device_can_sample(const SamplingParams& params);

// Throws Error(Exit::Usage) that names the parameter, the expected and the found value.
void validate(const SamplingParams& params, int64_t vocab);

// True if a penalty can change a logit.
bool penalizes(const SamplingParams& params);

// The last repeat_last_n tokens, which the penalties look at.
std::span<const int32_t> penalized_history(const SamplingParams& params,
                                           std::span<const int32_t> history);

}  // namespace skald
