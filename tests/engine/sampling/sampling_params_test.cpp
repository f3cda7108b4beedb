#include "engine/sampling/sampling_params.h"

#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "tests/catch.h"

namespace skald {
namespace {

constexpr float kInf = INFINITY;

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
  for (float x : {float{NAN}, -kInf, kInf}) {
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
  for (const Bias& bias : {Bias{{-1, 1.0f}}, Bias{{5, NAN}}, Bias{{5, kInf}, {6, 0}, {5, -kInf}}}) {
    CHECK(invalid([&](SamplingParams& p) { p.logit_bias = bias; }).find("logit_bias: expected ") ==
          0);
  }

  SamplingParams extremes;
  extremes.logit_bias = {{0, kInf}, {0, kInf}, {99, -kInf}, {99, 3.0f}};
  extremes.temperature = 0, extremes.min_p = 1, extremes.top_k = -1;
  extremes.repeat_last_n = -1, extremes.top_logprobs = 100;
  CHECK_NOTHROW(validate(extremes, 100));
}

}  // namespace skald
