#include "models/families/shared/rope.h"

#include <algorithm>
#include <cmath>

#include "engine/base/error.h"

namespace skald {
namespace {

// a / by, as PyTorch divides a number by a tensor: with a rounded reciprocal.
float divide(double a, float by) { return 1 / by * static_cast<float>(a); }

float power(float base, float exponent) {
  return static_cast<float>(std::pow(double{base}, double{exponent}));
}

// The base for `context` tokens with scaling "dynamic": it grows with the context, so that the
// longest wave still covers the context.
float dynamic_base(double base, int dims, const RopeScaling& scaling, int64_t context) {
  const double original = scaling.original_context;
  if (!(static_cast<double>(context) > original)) return static_cast<float>(base);
  float stretch = static_cast<float>(context) * static_cast<float>(scaling.factor);
  stretch /= static_cast<float>(original);
  stretch -= static_cast<float>(scaling.factor - 1);
  return static_cast<float>(base) * power(stretch, static_cast<float>(dims / (dims - 2.0)));
}

// The index of the frequency that turns `turns` times within the original context.
double yarn_index(double turns, double base, int dims, const RopeScaling& scaling) {
  return dims * std::log(scaling.original_context / (turns * 2 * M_PI)) / (2 * std::log(base));
}

// Scaling "yarn": short waves stay, long waves are stretched by the factor, with a ramp between.
void yarn(double base, int dims, const RopeScaling& scaling, std::vector<float>& powers) {
  double first = yarn_index(scaling.beta_fast, base, dims, scaling);
  double last = yarn_index(scaling.beta_slow, base, dims, scaling);
  if (scaling.truncate) {
    first = std::floor(first);
    last = std::ceil(last);
  }
  first = std::max(first, 0.0);
  last = std::min(last, dims - 1.0);
  if (first == last) last += 0.001;
  const float begin = static_cast<float>(first), width = static_cast<float>(last - first);
  for (size_t i = 0; i < powers.size(); ++i) {
    const float kept = 1 / powers[i];
    const float stretched = 1 / (static_cast<float>(scaling.factor) * powers[i]);
    const float keep = 1 - std::clamp((static_cast<float>(i) - begin) / width, 0.0f, 1.0f);
    powers[i] = stretched * (1 - keep) + kept * keep;
  }
}

float llama3(float frequency, const RopeScaling& scaling) {
  const float factor = static_cast<float>(scaling.factor);
  const float wavelength = divide(2 * M_PI, frequency);
  if (wavelength > static_cast<float>(scaling.original_context / scaling.low_freq_factor)) {
    return frequency / factor;
  }
  if (wavelength < static_cast<float>(scaling.original_context / scaling.high_freq_factor)) {
    return frequency;
  }
  float smooth = divide(scaling.original_context, wavelength);
  smooth -= static_cast<float>(scaling.low_freq_factor);
  smooth /= static_cast<float>(scaling.high_freq_factor - scaling.low_freq_factor);
  return (1 - smooth) * frequency / factor + smooth * frequency;
}

}  // namespace

std::vector<float> rope_frequencies(double base, int dims, const RopeScaling& scaling,
                                    int64_t context) {
  const bool dynamic = scaling.type == "dynamic", longrope = scaling.type == "longrope";
  const float used_base =
      dynamic ? dynamic_base(base, dims, scaling, context) : static_cast<float>(base);
  // The frequencies are the reciprocals of base^(2i / dims).
  std::vector<float> values(static_cast<size_t>(dims / 2));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = power(used_base, static_cast<float>(2 * i) / static_cast<float>(dims));
  }
  if (scaling.type == "yarn") {
    yarn(base, dims, scaling, values);
  } else if (longrope) {
    const bool is_long = static_cast<double>(context) > scaling.original_context;
    const std::vector<float>& factors = is_long ? scaling.long_factor : scaling.short_factor;
    check(factors.size() == values.size(), "longrope has a factor for each frequency");
    for (size_t i = 0; i < values.size(); ++i) values[i] = 1 / (factors[i] * values[i]);
  } else {
    for (float& value : values) value = 1 / value;
  }
  if (scaling.type == "linear") {
    for (float& value : values) value /= static_cast<float>(scaling.factor);
  } else if (scaling.type == "llama3" && scaling.divisors.empty()) {
    for (float& value : values) value = llama3(value, scaling);
  }
  for (size_t i = 0; i < scaling.divisors.size(); ++i) values[i] /= scaling.divisors[i];
  return values;
}

int64_t RopeConfig::short_context() const {
  const bool depends = scaling.type == "dynamic" || scaling.type == "longrope";
  return depends ? static_cast<int64_t>(scaling.original_context) : 0;
}

int64_t RopeConfig::stretched(int64_t context) const {
  if (scaling.type != "dynamic" && scaling.type != "yarn") return context;
  constexpr double kMost = 0x1p31;  // the largest context, in tokens
  const double length = std::min(scaling.factor * scaling.original_context, kMost);
  return std::max(context, static_cast<int64_t>(length));
}

RopeSpec RopeConfig::spec() const {
  RopeSpec spec;
  spec.inv_freq = rope_frequencies(base, dims, scaling);
  spec.scale = static_cast<float>(scaling.attention_factor);
  if (short_context() > 0) {
    spec.by_context = [rope = *this](int64_t context) {
      return rope_frequencies(rope.base, rope.dims, rope.scaling, context);
    };
  }
  return spec;
}

}  // namespace skald
