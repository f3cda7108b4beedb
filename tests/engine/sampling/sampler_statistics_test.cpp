// Checks that pick() draws from the right distribution, with any vocabulary and settings.
#include <cmath>
#include <string>
#include <vector>

#include "engine/base/rng.h"
#include "engine/sampling/sampler.h"
#include "tests/catch.h"
#include "tests/engine/sampling/sampler_reference.h"
#include "tests/statistics.h"

namespace skald {
namespace {

using test::goodness_of_fit;
using test::plain_sampling;
using test::plausible;
using test::reference_distribution;

constexpr int kDraws = 200000;

std::vector<float> random_logits(int vocab, float spread, uint64_t seed) {
  std::vector<float> logits(vocab);
  for (int i = 0; i < vocab; ++i) {
    const double radius = std::sqrt(-2 * std::log(1 - uniform(seed, 0, i, 0)));
    logits[i] =
        static_cast<float>(spread * radius * std::cos(6.283185307 * uniform(seed, 0, i, 1)));
  }
  return logits;
}

double p_value(const std::vector<float>& logits, const SamplingParams& params,
               const std::vector<int32_t>& history = {}) {
  std::vector<double> expected(logits.size());
  for (const auto& [id, p] : reference_distribution(logits, params, history)) expected[id] = p;
  std::vector<int64_t> counts(logits.size());
  Sampler sampler;
  for (int i = 0; i < kDraws; ++i) ++counts[sampler.pick(logits, params, {3, i, history}).token];
  return goodness_of_fit(counts, expected);
}

// Draws one of four values with probabilities 0.4, 0.3, 0.2, 0.1.
const std::vector<float> kFour = {std::log(0.4f), std::log(0.3f), std::log(0.2f), std::log(0.1f)};

double pair_p_value(const std::vector<SampleContext>& order) {
  std::vector<int64_t> counts(16);
  std::vector<double> expected(16);
  const double p[] = {0.4, 0.3, 0.2, 0.1};
  for (int i = 0; i < 16; ++i) expected[i] = p[i / 4] * p[i % 4];
  Sampler sampler;
  SamplingParams params = plain_sampling();
  params.seed = 99;
  for (size_t i = 0; i + 1 < order.size(); i += 2) {
    const int first = sampler.pick(kFour, params, order[i]).token;
    ++counts[first * 4 + sampler.pick(kFour, params, order[i + 1]).token];
  }
  return goodness_of_fit(counts, expected);
}

}  // namespace

TEST_CASE("draws follow the temperature") {
  for (float temperature : {0.7f, 1.0f, 1.5f}) {
    SamplingParams params = plain_sampling();
    params.temperature = temperature;
    CAPTURE(temperature);
    CHECK(plausible(p_value(random_logits(50, 1.5f, 1), params)));
    CHECK(plausible(p_value(random_logits(120, 2.0f, 2), params)));
  }
}

TEST_CASE("draws follow the distribution that each filter leaves") {
  const std::vector<float> logits = random_logits(100, 2.0f, 4);
  SamplingParams params = plain_sampling();
  params.temperature = 0.9f;
  SECTION("top-k") { params.top_k = 12; }
  SECTION("top-p") { params.top_p = 0.8f; }
  SECTION("min-p") { params.min_p = 0.1f; }
  SECTION("typical") { params.typical_p = 0.7f; }
  SECTION("the defaults") { params = SamplingParams(); }
  SECTION("all together") {
    params.top_k = 50;
    params.typical_p = 0.95f;
    params.top_p = 0.9f;
    params.min_p = 0.05f;
  }
  CHECK(plausible(p_value(logits, params)));
}

TEST_CASE("draws follow penalties and bias") {
  const std::vector<float> logits = random_logits(40, 1.5f, 5);
  std::vector<int32_t> history;
  for (int i = 0; i < 100; ++i) history.push_back(i * i % 40);
  SamplingParams params = plain_sampling();
  SECTION("repeat") { params.repeat_penalty = 1.5f; }
  SECTION("presence") { params.presence_penalty = 0.8f; }
  SECTION("frequency") { params.frequency_penalty = 0.1f; }
  SECTION("bias") { params.logit_bias = {{0, 2.0f}, {1, -1.0f}, {2, -INFINITY}, {0, 0.5f}}; }
  SECTION("all together") {
    params.repeat_penalty = 1.2f;
    params.presence_penalty = -0.3f;
    params.frequency_penalty = 0.2f;
    params.repeat_last_n = 30;
    params.logit_bias = {{7, 1.0f}, {9, -INFINITY}};
  }
  CHECK(plausible(p_value(logits, params, history)));
}

TEST_CASE("draws at neighbouring positions and requests are independent") {
  std::vector<SampleContext> positions, requests, across;
  for (int i = 0; i < 2 * kDraws; ++i) {
    positions.push_back({5, i, {}});
    requests.push_back({static_cast<uint64_t>(i), 5, {}});
    across.push_back({static_cast<uint64_t>(i % 2), i / 2, {}});
  }
  CHECK(plausible(pair_p_value(positions)));
  CHECK(plausible(pair_p_value(requests)));
  CHECK(plausible(pair_p_value(across)));
}

TEST_CASE("survivors and probabilities agree with the sorting reference for random settings") {
  Sampler sampler;
  constexpr int kCases = 3000;
  for (int trial = 0; trial < kCases; ++trial) {
    uint16_t draws = 0;
    const auto random = [&](double low, double high) {
      return low + (high - low) * uniform(17, 4, trial, draws++);
    };
    const auto chance = [&](double p) { return random(0, 1) < p; };
    const int vocab = 1 + static_cast<int>(std::exp(random(0, std::log(2000.0))));
    std::vector<float> logits = random_logits(vocab, static_cast<float>(random(0.05, 8)), trial);
    if (chance(0.3)) {
      for (float& x : logits) x = std::round(x);  // many ties
    }
    if (chance(0.2)) {
      for (int i = 1; i < vocab; i += 3) logits[i] = -INFINITY;
    }
    SamplingParams params = plain_sampling();
    params.temperature = static_cast<float>(random(0.1, 3));
    if (chance(0.5)) params.top_k = static_cast<int>(random(1, 1.2 * vocab + 1));
    if (chance(0.5)) params.top_p = static_cast<float>(random(0.001, 1));
    if (chance(0.5)) params.min_p = static_cast<float>(random(0.0001, 1));
    if (chance(0.3)) params.typical_p = static_cast<float>(random(0.001, 1));
    if (chance(0.3)) params.repeat_penalty = static_cast<float>(random(0.5, 2));
    if (chance(0.3)) params.presence_penalty = static_cast<float>(random(-2, 2));
    if (chance(0.3)) params.frequency_penalty = static_cast<float>(random(-1, 1));
    params.repeat_last_n = static_cast<int>(random(-1.9, 100));
    if (chance(0.2)) params.logit_bias.emplace_back(0, static_cast<float>(random(-5, 5)));
    if (chance(0.2)) params.logit_bias.emplace_back(vocab / 2, static_cast<float>(random(-5, 5)));
    if (chance(0.1) && vocab > 4) params.logit_bias.emplace_back(3, -INFINITY);
    std::vector<int32_t> history;
    for (int i = static_cast<int>(random(0, 150)); i > 0; --i) {
      history.push_back(static_cast<int32_t>(random(0, vocab)));
    }
    validate(params, vocab);

    const auto expected = reference_distribution(logits, params, history);
    const auto got = sampler.distribution(logits, params, {0, 0, history});
    CAPTURE(trial, vocab, params.top_k, params.top_p, params.min_p, params.typical_p);
    REQUIRE(got.size() == expected.size());
    for (size_t i = 0; i < got.size(); ++i) {
      REQUIRE(got[i].first == expected[i].first);
      REQUIRE(std::abs(got[i].second - expected[i].second) <= 1e-5 * expected[i].second + 1e-12);
    }

    // pick() inverts the cumulative distribution at the random number of (seed, request, position).
    const double u = uniform(params.seed, 8, trial);
    const int32_t token = sampler.pick(logits, params, {8, trial, history}).token;
    double below = 0;
    size_t i = 0;
    while (expected[i].first != token) {
      REQUIRE(i + 1 < expected.size());
      below += expected[i++].second;
    }
    CHECK(u >= below - 1e-5);
    CHECK(u <= below + expected[i].second + 1e-5);
  }
}

TEST_CASE("with a large vocabulary the survivors agree with the sorting reference") {
  Sampler sampler;
  for (float spread : {0.01f, 0.5f, 3.0f}) {
    const std::vector<float> logits = random_logits(40000, spread, 12);
    for (int which = 0; which < 6; ++which) {
      SamplingParams params = plain_sampling();
      params.temperature = 1.3f;
      if (which == 0) params.top_k = 5000;
      if (which == 1) params.top_p = 0.6f;
      if (which == 2) params.min_p = 0.2f;
      if (which == 3) params = SamplingParams();
      if (which == 4) params.typical_p = 0.5f;
      const auto expected = reference_distribution(logits, params);
      const auto got = sampler.distribution(logits, params, {});
      CAPTURE(spread, which);
      REQUIRE(got.size() == expected.size());
      bool same = true;
      for (size_t i = 0; i < got.size(); ++i) {
        same &= got[i].first == expected[i].first &&
                std::abs(got[i].second - expected[i].second) <= 1e-5 * expected[i].second + 1e-13;
      }
      CHECK(same);
    }
  }
}

}  // namespace skald
