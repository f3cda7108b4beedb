#include "engine/sampling/sampling_params.h"

#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "engine/sampling/sampler.h"
#include "tests/catch.h"
#include "tests/engine/sampling/changed_parameters.h"
#include "tests/engine/sampling/sampler_reference.h"

namespace skald {
namespace {

constexpr float kInfinite = INFINITY;

// The message of validate() for the defaults with one change, and a vocabulary of 100.
std::string invalid(const std::function<void(SamplingParams&)>& change) {
  SamplingParams params;
  change(params);
  try {
    validate(params, 100);
  } catch (const Error& error) {
    CHECK(error.code() == Exit::Usage);
    return error.what();
  }
  return "no error";
}

// All that a caller sees of the sampler with these parameters.
struct Observed {
  std::vector<std::pair<int32_t, double>> distribution;
  std::vector<int32_t> picked;
  size_t reported = 0;

  bool operator==(const Observed&) const = default;
};

Observed observe(const SamplingParams& params) {
  const std::vector<float> logits{2, 1.5f, 1, 0.5f, 0.25f, 0, -0.5f, -1};
  const std::vector<int32_t> history{1, 4, 0, 0, 2};
  Sampler sampler;
  Observed observed;
  observed.distribution = sampler.distribution(logits, params, {0, 0, history});
  for (int64_t position = 0; position < 20; ++position) {
    const Picked& picked = sampler.pick(logits, params, {0, position, history});
    observed.picked.push_back(picked.token);
    observed.reported = picked.top.size();
  }
  return observed;
}

}  // namespace

TEST_CASE("validate() names the wrong parameter, what it expected and what it found") {
  CHECK_NOTHROW(validate(SamplingParams(), 100));
  CHECK(invalid([](SamplingParams& p) { p.temperature = -1; }) ==
        "temperature: expected a finite number, 0 or more, found -1");
  CHECK(invalid([](SamplingParams& p) { p.top_p = 0; }) ==
        "top_p: expected a number above 0 and up to 1, found 0");
  CHECK(invalid([](SamplingParams& p) {
          p.logit_bias = {{100, 1.0f}};
        }) == "logit_bias: expected token ids from 0 to 99, found 100");
  const auto refuses = [](const std::string& name, auto SamplingParams::*field, auto value) {
    const std::string message = invalid([&](SamplingParams& p) { p.*field = value; });
    CAPTURE(name, value);
    CHECK(message.find(name + ": expected ") == 0);
    CHECK(message.find(", found ") != std::string::npos);
  };
  for (float x : {float{NAN}, -kInfinite, kInfinite}) {
    refuses("temperature", &SamplingParams::temperature, x);
    refuses("top_p", &SamplingParams::top_p, x);
    refuses("min_p", &SamplingParams::min_p, x);
    refuses("typical_p", &SamplingParams::typical_p, x);
    refuses("repeat_penalty", &SamplingParams::repeat_penalty, x);
    refuses("presence_penalty", &SamplingParams::presence_penalty, x);
    refuses("frequency_penalty", &SamplingParams::frequency_penalty, x);
  }
  for (float x : {-0.1f, 1.1f}) {
    refuses("top_p", &SamplingParams::top_p, x);
    refuses("min_p", &SamplingParams::min_p, x);
    refuses("typical_p", &SamplingParams::typical_p, x);
  }
  refuses("typical_p", &SamplingParams::typical_p, 0.0f);
  refuses("repeat_penalty", &SamplingParams::repeat_penalty, 0.0f);
  refuses("repeat_penalty", &SamplingParams::repeat_penalty, -1.0f);
  refuses("top_k", &SamplingParams::top_k, -2);
  refuses("repeat_last_n", &SamplingParams::repeat_last_n, -2);
  refuses("top_logprobs", &SamplingParams::top_logprobs, -1);
  refuses("top_logprobs", &SamplingParams::top_logprobs, 101);
  using Bias = std::vector<std::pair<int32_t, float>>;
  for (const Bias& bias :
       {Bias{{-1, 1.0f}}, Bias{{5, NAN}}, Bias{{5, kInfinite}, {6, 0}, {5, -kInfinite}}}) {
    CHECK(invalid([&](SamplingParams& p) { p.logit_bias = bias; }).find("logit_bias: expected ") ==
          0);
  }

  SamplingParams extremes;
  extremes.logit_bias = {{0, kInfinite}, {0, kInfinite}, {99, -kInfinite}, {99, 3.0f}};
  extremes.temperature = 0, extremes.min_p = 1, extremes.top_k = -1;
  extremes.repeat_last_n = -1, extremes.top_logprobs = 100;
  CHECK_NOTHROW(validate(extremes, 100));
}

TEST_CASE("every sampling parameter changes what the sampler gives") {
  SamplingParams base = test::plain_sampling();
  base.repeat_penalty = 1.5f;  // else repeat_last_n has no effect
  const Observed before = observe(base);
  for (const SamplingParameter& row : sampling_parameters()) {
    bool changes = false;
    for (const SamplingParams& params : test::changed_parameters(row, base)) {
      CHECK_NOTHROW(validate(params, 8));
      changes = changes || observe(params) != before;
    }
    CAPTURE(row.field);
    CHECK(changes);
  }
}

TEST_CASE("a parameter with any other value than the neutral one is not off") {
  const SamplingParams base = test::plain_sampling();
  for (const SamplingParameter& row : sampling_parameters()) {
    if (!is_off(row, base)) continue;
    for (const SamplingParams& params : test::changed_parameters(row, base)) {
      CAPTURE(row.field);
      CHECK_FALSE(is_off(row, params));
    }
  }
}

TEST_CASE("a request that sets a parameter of the host alone is not sampled on a device") {
  const SamplingParams base = test::plain_sampling();
  CHECK(device_can_sample(base));
  bool host_alone = false;
  for (const SamplingParameter& row : sampling_parameters()) {
    for (const SamplingParams& params : test::changed_parameters(row, base)) {
      CAPTURE(row.field);
      CHECK(device_can_sample(params) == (row.sampled_by == SampledBy::DeviceOrHost));
    }
    host_alone = host_alone || row.sampled_by == SampledBy::Host;
  }
  CHECK(host_alone);  // typical_p, at least
}

}  // namespace skald
