#include "engine/sampling/sampling_params.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <unordered_map>

#include "engine/base/error.h"

namespace skald {
namespace {

constexpr double kLargest = std::numeric_limits<float>::max();
constexpr double kMostCount = std::numeric_limits<int>::max();
constexpr double kNever = std::numeric_limits<double>::quiet_NaN();

constexpr NumberRange kShare{0, 1, true, "a number above 0 and up to 1"};
constexpr NumberRange kShareOr0{0, 1, false, "a number from 0 to 1"};
constexpr NumberRange kAtLeast0{0, kLargest, false, "a finite number, 0 or more"};
constexpr NumberRange kAbove0{0, kLargest, true, "a finite number above 0"};
constexpr NumberRange kFinite{-kLargest, kLargest, false, "a finite number"};
constexpr NumberRange kLimit{-1, kMostCount, false, "a count, or 0 for no limit"};
constexpr NumberRange kWindow{-1, kMostCount, false, "a count of tokens, 0 for none or -1 for all"};
constexpr NumberRange kReported{0, kMostCount, false,
                                "a count from 0 to the size of the vocabulary"};

// Rows with flags are in the order of --help. The order is part of the hash by which `batch
// --resume` recognizes a request: add new rows at the end.
using P = SamplingParams;
using enum SampledBy;
constexpr SamplingParameter kParameters[] = {
    // member, field, other field, flags, range, off, sampled by, help
    {&P::temperature, "temperature", "", "--temp", kAtLeast0, kNever, DeviceOrHost,
     "Sample with this temperature; 0: always take the best token"},
    {&P::top_k, "top_k", "", "--top-k", kLimit, 0, DeviceOrHost, "Keep the N best tokens; 0: all"},
    {&P::top_p, "top_p", "", "--top-p", kShare, 1, DeviceOrHost,
     "Keep the best tokens that together have probability X; 1: off"},
    {&P::min_p, "min_p", "", "--min-p", kShareOr0, 0, DeviceOrHost,
     "Keep tokens at least X times as probable as the best; 0: off"},
    {&P::typical_p, "typical_p", "", "--typical", kShare, 1, Host,
     "Keep the most typical tokens with probability X together; 1: off"},
    {&P::repeat_penalty, "repeat_penalty", "repetition_penalty", "--repeat-penalty", kAbove0, 1,
     DeviceOrHost, "Divide the logits of repeated tokens by X; 1: off"},
    {&P::repeat_last_n, "repeat_last_n", "", "--repeat-last-n", kWindow, 0, DeviceOrHost,
     "Penalize tokens that are among the last N; -1: all tokens, 0: off"},
    {&P::presence_penalty, "presence_penalty", "", "--presence-penalty", kFinite, 0, DeviceOrHost,
     "Subtract X from the logit of a repeated token; 0: off"},
    {&P::frequency_penalty, "frequency_penalty", "", "--frequency-penalty", kFinite, 0,
     DeviceOrHost, "Subtract X from a token's logit for each repetition; 0: off"},
    {&P::logit_bias,
     "logit_bias",
     "",
     "-l,--logit-bias",
     {},
     kNever,
     DeviceOrHost,
     "Add to the logit of a token, as in 15043-1.5; may be repeated"},
    {&P::seed,
     "seed",
     "",
     "-s,--seed",
     {},
     kNever,
     DeviceOrHost,
     "Draw with this seed; -1: another one each time"},
    {&P::top_logprobs, "top_logprobs", "", "", kReported, 0, DeviceOrHost,
     "Report N best tokens beside the picked one"},
};

// Converts to any type, to test whether an aggregate can be initialized from n values.
struct AnyMember {
  template <class T>
  operator T() const;
};

template <class Struct, class... Members>
constexpr size_t member_count() {
  if constexpr (requires { Struct{Members{}..., AnyMember{}}; }) {
    return member_count<Struct, Members..., AnyMember>();
  }
  return sizeof...(Members);
}

constexpr bool every_member_is_different() {
  for (size_t i = 0; i < std::size(kParameters); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (kParameters[i].member == kParameters[j].member) return false;
    }
  }
  return true;
}

static_assert(std::size(kParameters) == member_count<SamplingParams>() &&
                  every_member_is_different(),
              "every member of SamplingParams has one row in kParameters");

[[noreturn]] void fail_range(const SamplingParameter& parameter, auto found) {
  fail(Exit::Usage, parameter.field, ": expected ", parameter.range.expected, ", found ", found);
}

void check_biases(const LogitBias& biases, int64_t vocab) {
  std::unordered_map<int32_t, float> infinite;
  for (const auto& [id, bias] : biases) {
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

// Calls function(value of the parameter in params).
decltype(auto) visit_value(const SamplingParameter& parameter, const SamplingParams& params,
                           auto function) {
  return std::visit([&](auto member) { return function(params.*member); }, parameter.member);
}

}  // namespace

std::span<const SamplingParameter> sampling_parameters() { return kParameters; }

bool is_off(const SamplingParameter& parameter, const SamplingParams& params) {
  return visit_value(parameter, params, [&](const auto& value) {
    if constexpr (std::is_arithmetic_v<std::remove_cvref_t<decltype(value)>>) {
      return static_cast<double>(value) == parameter.off;
    } else {
      return value.empty();
    }
  });
}

bool device_can_sample(const SamplingParams& params) {
  return std::ranges::all_of(kParameters, [&](const SamplingParameter& parameter) {
    return parameter.sampled_by == DeviceOrHost || is_off(parameter, params);
  });
}

void validate(const SamplingParams& params, int64_t vocab) {
  for (const SamplingParameter& parameter : kParameters) {
    visit_value(parameter, params, [&](const auto& value) {
      using T = std::remove_cvref_t<decltype(value)>;
      if constexpr (std::is_same_v<T, LogitBias>) {
        check_biases(value, vocab);
      } else if constexpr (!std::is_same_v<T, uint64_t>) {
        if (!parameter.range.holds(value)) fail_range(parameter, value);
      }
    });
    if (parameter.member == SamplingParameter::Member(&P::top_logprobs) &&
        params.top_logprobs > vocab) {
      fail_range(parameter, params.top_logprobs);
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
