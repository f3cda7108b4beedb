#include "app/generate/sampling_flags.h"

#include <cfloat>
#include <charconv>
#include <cmath>
#include <limits>
#include <random>

#include "app/program/help.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"

namespace skald {
namespace {

// "15043-1", "15043+2.5", "15043-inf"
std::pair<int32_t, float> parse_bias(const std::string& text) {
  const size_t sign = text.find_first_of("+-");
  int32_t id = -1;
  float bias = 0;
  bool good = sign != std::string::npos && sign > 0;
  if (good) {
    const char* begin = text.data();
    const auto parsed_id = std::from_chars(begin, begin + sign, id);
    const char* number = begin + sign + (text[sign] == '+');
    const auto parsed_bias = std::from_chars(number, begin + text.size(), bias);
    good = parsed_id.ec == std::errc() && parsed_id.ptr == begin + sign && id >= 0 &&
           parsed_bias.ec == std::errc() && parsed_bias.ptr == begin + text.size();
  }
  if (!good) {
    fail(Exit::Usage, "--logit-bias '", printable(text),
         "': expected a token id, a sign and a number, as in 15043-1.5 or 2-inf");
  }
  return {id, bias};
}

}  // namespace

void add_sampling_flags(CLI::App& command, SamplingFlags& flags) {
  SamplingParams& p = flags.params;
  auto option = [&](const char* names, auto& value, const char* type, const char* description,
                    const CLI::Validator& validator) {
    command.add_option(names, value, description)
        ->type_name(type)
        ->transform(validator)
        ->capture_default_str()
        ->group(kChangesOutput);
  };
  constexpr float kLargest = std::numeric_limits<float>::max();
  const CLI::Validator count = in_range(-1, INT32_MAX);
  const CLI::Validator share =
      number_where([](double x) { return x > 0 && x <= 1; }, "a number above 0 and up to 1");
  const CLI::Validator share_or_0 =
      number_where([](double x) { return x >= 0 && x <= 1; }, "a number from 0 to 1");
  const CLI::Validator at_least_0 =
      number_where([](double x) { return x >= 0 && x <= kLargest; }, "a finite number, 0 or more");
  const CLI::Validator above_0 =
      number_where([](double x) { return x > FLT_MIN && x <= kLargest; }, "a number above 0");
  const CLI::Validator any =
      number_where([](double x) { return std::fabs(x) <= kLargest; }, "a finite number");
  option("-s,--seed", flags.seed, "N", "Seed; -1: another one each time", in_range(-1, INT64_MAX));
  option("--temp", p.temperature, "X", "Temperature; 0: always the best token", at_least_0);
  option("--top-k", p.top_k, "N", "Keep the N best tokens; 0: all", count);
  option("--top-p", p.top_p, "X", "Keep the best that hold X together", share);
  option("--min-p", p.min_p, "X", "Keep those at least X as likely as the best", share_or_0);
  option("--typical", p.typical_p, "X", "Keep the typical ones; 1: off", share);
  option("--repeat-penalty", p.repeat_penalty, "X", "Penalty on repeated tokens; 1: off", above_0);
  option("--repeat-last-n", p.repeat_last_n, "N", "How far penalties look back; -1: all", count);
  option("--presence-penalty", p.presence_penalty, "X", "Subtracted once from repeated tokens",
         any);
  option("--frequency-penalty", p.frequency_penalty, "X", "Subtracted for each repetition", any);
  command.add_option("-l,--logit-bias", flags.biases, "Adds to a token's logit, as in 15043-1.5")
      ->type_name("ID+X")
      ->expected(1)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->group(kChangesOutput);
}

SamplingParams sampling_params(const SamplingFlags& flags, int64_t vocab) {
  SamplingParams params = flags.params;
  params.seed = flags.seed >= 0 ? static_cast<uint64_t>(flags.seed) : std::random_device{}();
  for (const std::string& bias : flags.biases) params.logit_bias.push_back(parse_bias(bias));
  validate(params, vocab);
  return params;
}

}  // namespace skald
