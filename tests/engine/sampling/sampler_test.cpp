#include "engine/sampling/sampler.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/exp.h"
#include "engine/base/rng.h"
#include "tests/catch.h"
#include "tests/engine/sampling/sampler_reference.h"

namespace skald {
namespace {

using test::plain_sampling;
using Ids = std::vector<int32_t>;

constexpr float kInf = INFINITY;

std::vector<float> logs(std::vector<float> probabilities) {
  for (float& p : probabilities) p = std::log(p);
  return probabilities;
}

Ids survivors(const std::vector<float>& logits, const SamplingParams& params,
              const Ids& history = {}) {
  Sampler sampler;
  Ids ids;
  double total = 0;
  for (const auto& [id, p] : sampler.distribution(logits, params, {0, 0, history})) {
    ids.push_back(id);
    total += p;
  }
  CHECK(total == Approx(1).epsilon(1e-12));
  return ids;
}

SamplingParams with(const std::function<void(SamplingParams&)>& change) {
  SamplingParams params = plain_sampling();
  change(params);
  return params;
}

Ids top_k(const std::vector<float>& logits, int k) {
  return survivors(logits, with([=](SamplingParams& p) { p.top_k = k; }));
}
Ids top_p(const std::vector<float>& logits, float share) {
  return survivors(logits, with([=](SamplingParams& p) { p.top_p = share; }));
}
Ids min_p(const std::vector<float>& logits, float share) {
  return survivors(logits, with([=](SamplingParams& p) { p.min_p = share; }));
}
Ids typical(const std::vector<float>& logits, float share) {
  return survivors(logits, with([=](SamplingParams& p) { p.typical_p = share; }));
}

// The logit of a token after all changes, computed from the odds against a token that nothing
// changes.
double logit_after(float logit, const SamplingParams& params, const Ids& history) {
  Sampler sampler;
  const std::vector<float> logits = {logit, 0};
  double p[2];
  for (const auto& [id, share] : sampler.distribution(logits, params, {0, 0, history})) {
    p[id] = share;
  }
  return std::log(p[0] / p[1]);
}

std::string pick_error(const std::vector<float>& logits, SamplingParams params = {}) {
  try {
    Sampler().pick(logits, params, {});
  } catch (const Error& error) {
    CHECK(error.code() == Exit::Failed);
    return error.what();
  }
  return "no error";
}

int32_t greedy(const std::vector<float>& logits, SamplingParams params = {},
               const Ids& history = {}) {
  params.temperature = 0;
  return Sampler().pick(logits, params, {1, 2, history}).token;
}

}  // namespace

TEST_CASE("exp_nonpositive agrees with exp to 1.5e-7, is exact at 0 and zero below -87") {
  double worst = 0;
  for (int i = 0; i <= 870000; ++i) {
    const float x = -1e-4f * static_cast<float>(i);
    if (x < -87) break;
    const double exact = std::exp(double{x});
    worst = std::max(worst, std::abs(exp_nonpositive(x) - exact) / exact);
  }
  CHECK(worst < 1.5e-7);
  CHECK(exp_nonpositive(0) == 1);
  CHECK(exp_nonpositive(-0.0f) == 1);
  CHECK(exp_nonpositive(-87.0f) > 0);
  for (float x : {-87.01f, -200.0f, -1e30f, -kInf}) CHECK(exp_nonpositive(x) == 0);
}

TEST_CASE("top-k keeps the k best tokens, the lower id first among equals") {
  const std::vector<float> logits = {1, 5, 3, 5, 2, 3};
  CHECK(top_k(logits, 1) == Ids{1});
  CHECK(top_k(logits, 2) == Ids{1, 3});
  CHECK(top_k(logits, 3) == Ids{1, 3, 2});
  CHECK(top_k(logits, 4) == Ids{1, 3, 2, 5});
  const Ids all = {1, 3, 2, 5, 4, 0};
  CHECK(top_k(logits, 6) == all);
  CHECK(top_k(logits, 1000) == all);
  CHECK(top_k(logits, 0) == all);
  CHECK(top_k(logits, -1) == all);
  CHECK(top_k(std::vector<float>(500, 2.0f), 3) == Ids{0, 1, 2});
}

TEST_CASE("top-p keeps the fewest best tokens that have the share") {
  // Equal logits have a weight of exactly 1, so that these shares lie exactly on a border.
  const std::vector<float> equal(4, -3.0f);
  CHECK(top_p(equal, 0.25f) == Ids{0});
  CHECK(top_p(equal, 0.5f) == Ids{0, 1});
  CHECK(top_p(equal, std::nextafter(0.5f, 1.0f)) == Ids{0, 1, 2});
  CHECK(top_p(equal, std::nextafter(0.5f, 0.0f)) == Ids{0, 1});
  CHECK(top_p(equal, 1) == Ids{0, 1, 2, 3});
  CHECK(top_p(equal, 1e-30f) == Ids{0});
  const std::vector<float> logits = logs({0.1f, 0.5f, 0.15f, 0.25f});
  CHECK(top_p(logits, 0.49f) == Ids{1});
  CHECK(top_p(logits, 0.51f) == Ids{1, 3});
  CHECK(top_p(logits, 0.76f) == Ids{1, 3, 2});
  CHECK(top_p(logits, 0.91f) == Ids{1, 3, 2, 0});
}

TEST_CASE("min-p keeps tokens by their probability relative to the best") {
  const std::vector<float> logits = logs({0.1f, 0.5f, 0.15f, 0.25f});
  CHECK(min_p(logits, 1) == Ids{1});
  CHECK(min_p(logits, 0.51f) == Ids{1});
  CHECK(min_p(logits, 0.49f) == Ids{1, 3});
  CHECK(min_p(logits, 0.29f) == Ids{1, 3, 2});
  CHECK(min_p(logits, 0.19f) == Ids{1, 3, 2, 0});
  CHECK(min_p({2, 7, 7, 1}, 1) == Ids{1, 2});
  // The second token lies exactly on the border and survives.
  const std::vector<float> edge = {0, std::log(0.5f), -9};
  CHECK(min_p(edge, 0.5f) == Ids{0, 1});
  CHECK(survivors(edge, with([](SamplingParams& p) { p.top_k = 2, p.min_p = 0.5f; })) == Ids{0, 1});
}

TEST_CASE("typical keeps the tokens whose surprise is closest to the entropy") {
  // Entropy 1.28 nats; surprises 0.69, 1.39, 2.30, 3.00, 3.00: the second token is most typical.
  const std::vector<float> logits = logs({0.5f, 0.25f, 0.1f, 0.075f, 0.075f});
  CHECK(typical(logits, 0.2f) == Ids{1});
  CHECK(typical(logits, 0.26f) == Ids{0, 1});
  CHECK(typical(logits, 0.76f) == Ids{0, 1, 2});
  CHECK(typical(logits, 0.86f) == Ids{0, 1, 2, 3});
  CHECK(typical(logits, 0.99f) == Ids{0, 1, 2, 3, 4});
  // All tokens are equally typical. Unlike in top-p, the share must be exceeded.
  const std::vector<float> equal(4, 1.0f);
  CHECK(typical(equal, 0.5f) == Ids{0, 1, 2});
  CHECK(typical(equal, 0.49f) == Ids{0, 1});
  CHECK(typical(equal, 0.75f) == Ids{0, 1, 2, 3});
}

TEST_CASE("each filter renormalizes the probabilities that the filter before left") {
  const std::vector<float> logits = logs({0.4f, 0.3f, 0.2f, 0.1f});
  // 0.4 is 0.57 of the two best together, but less than half of all.
  CHECK(survivors(logits, with([](SamplingParams& p) { p.top_k = 2, p.top_p = 0.55f; })) == Ids{0});
  CHECK(top_p(logits, 0.55f) == Ids{0, 1});
  // Typical drops the best token; min-p then compares with the best survivor.
  const std::vector<float> peaked = logs({0.4f, 0.12f, 0.12f, 0.12f, 0.12f, 0.12f});
  CHECK(typical(peaked, 0.3f) == Ids{1, 2, 3});
  CHECK(survivors(peaked, with([](SamplingParams& p) { p.typical_p = 0.3f, p.min_p = 0.9f; })) ==
        Ids{1, 2, 3});
  // Filters use temperature 1, so that a high temperature changes no survivor.
  CHECK(survivors(logits, with([](SamplingParams& p) { p.temperature = 9, p.min_p = 0.6f; })) ==
        Ids{0, 1});
  // Bias and penalties come before the filters.
  CHECK(survivors(logits, with([](SamplingParams& p) {
                    p.logit_bias = {{3, 5.0f}}, p.top_k = 1;
                  })) == Ids{3});
  CHECK(survivors(logits, with([](SamplingParams& p) { p.presence_penalty = 5, p.top_k = 1; }),
                  {0}) == Ids{1});
}

TEST_CASE("at least one token always survives") {
  const auto strict = [](SamplingParams& p) {
    p.top_k = 1, p.top_p = 1e-38f, p.min_p = 1, p.typical_p = 1e-38f, p.temperature = 1e-45f;
  };
  CHECK(survivors({1, 2, 3}, with(strict)) == Ids{2});
  CHECK(survivors({-kInf, -2, -kInf}, with(strict)) == Ids{1});
  CHECK(survivors({4}, with(strict)) == Ids{0});
  CHECK(Sampler().pick(std::vector<float>{4}, with(strict), {}).logprob == 0);
  CHECK(survivors({3e38f, -3e38f}, with([](SamplingParams& p) { p.typical_p = 0.5f; })) == Ids{0});
}

TEST_CASE("a token with logit -inf is never picked") {
  const std::vector<float> logits = {-kInf, 1, -kInf, 2};
  CHECK(survivors(logits, plain_sampling()) == Ids{3, 1});
  CHECK(top_k(logits, 3) == Ids{3, 1});
  CHECK(typical(logits, 0.999f) == Ids{3, 1});
  const auto bias = [](SamplingParams& p) {
    p.logit_bias = {{0, 100.0f}}, p.repeat_penalty = 2, p.frequency_penalty = -1;
  };
  CHECK(survivors(logits, with(bias), {0, 2}) == Ids{3, 1});
}

TEST_CASE("penalties change logits by their formulas") {
  const auto repeat = with([](SamplingParams& p) { p.repeat_penalty = 2; });
  CHECK(logit_after(3, repeat, {0}) == Approx(1.5));
  CHECK(logit_after(3, repeat, {0, 0, 0}) == Approx(1.5));
  CHECK(logit_after(-3, repeat, {0}) == Approx(-6));
  CHECK(logit_after(3, repeat, {}) == Approx(3));
  const auto presence = with([](SamplingParams& p) { p.presence_penalty = 0.5f; });
  CHECK(logit_after(3, presence, {0, 0, 0}) == Approx(2.5));
  const auto frequency = with([](SamplingParams& p) { p.frequency_penalty = 0.5f; });
  CHECK(logit_after(3, frequency, {0, 0, 0}) == Approx(1.5));
  auto all = with([](SamplingParams& p) {
    p.repeat_penalty = 2, p.presence_penalty = 0.25f, p.frequency_penalty = 0.5f;
    p.logit_bias = {{0, 1.0f}};
  });
  CHECK(logit_after(3, all, {0, 0}) == Approx((3 + 1) / 2.0 - 2 * 0.5 - 0.25));
  all.repeat_last_n = 0;
  CHECK(logit_after(3, all, {0, 0}) == Approx(4));
}

TEST_CASE("penalties count the last repeat_last_n tokens") {
  auto params = with([](SamplingParams& p) { p.frequency_penalty = 1; });
  Ids history(100, 0);                     // 100 zeros, then two other tokens
  history.insert(history.end(), {7, -1});  // two other tokens, without a logit here
  params.logit_bias = {{0, -130.0f}};
  CHECK(logit_after(200, params, history) == Approx(200 - 130 - 62));
  params.logit_bias = {{0, -195.0f}};
  params.repeat_last_n = 3;
  CHECK(logit_after(200, params, history) == Approx(4));
  params.repeat_last_n = 2;
  CHECK(logit_after(200, params, history) == Approx(5));
  params.repeat_last_n = 1000;
  params.logit_bias = {{0, -99.0f}};
  CHECK(logit_after(200, params, history) == Approx(1));
  params.repeat_last_n = -1;
  CHECK(logit_after(200, params, history) == Approx(1));
}

TEST_CASE("an infinite bias bans or forces a token") {
  const std::vector<float> logits = {1, 2, 3};
  const auto biased = [&](std::vector<std::pair<int32_t, float>> bias) {
    return survivors(logits, with([&](SamplingParams& p) { p.logit_bias = bias; }));
  };
  CHECK(biased({{2, -kInf}}) == Ids{1, 0});
  CHECK(biased({{2, -kInf}, {2, 50.0f}}) == Ids{1, 0});
  CHECK(biased({{0, kInf}}) == Ids{0});
  CHECK(biased({{0, kInf}, {1, kInf}}) == Ids{1, 0});
  CHECK(biased({{0, kInf}, {1, kInf}, {0, 3.0f}}) == Ids{0, 1});
  CHECK(biased({{0, 1.5f}, {0, 1.5f}}) == Ids{0, 2, 1});
  CHECK(greedy(logits, with([](SamplingParams& p) { p.logit_bias = {{1, kInf}}; })) == 1);
}

TEST_CASE("changes that overflow stay finite") {
  const std::vector<float> logits = {3e38f, -3e38f, 1};
  const auto extreme = with([](SamplingParams& p) {
    p.logit_bias = {{0, 3e38f}, {1, -3e38f}}, p.repeat_penalty = 1e-38f;
    p.frequency_penalty = 3e38f, p.presence_penalty = -3e38f;
  });
  CHECK(survivors(logits, extreme, {2}) == Ids{0, 2, 1});
  CHECK(survivors(logits, extreme, {0, 1, 1}).size() == 3);
}

TEST_CASE("temperature 0 picks the best token, the lowest id among equals") {
  CHECK(greedy({1, 3, 2, 3}) == 1);
  CHECK(greedy({-kInf, -5, -kInf}) == 1);
  CHECK(greedy(std::vector<float>(77, -0.5f)) == 0);
  // Typical could drop the best token, but a greedy pick skips the filters.
  const auto params = with([](SamplingParams& p) { p.typical_p = 0.3f; });
  CHECK(greedy(logs({0.12f, 0.4f, 0.12f, 0.12f, 0.12f, 0.12f}), params) == 1);
  CHECK(greedy({1, 3, 2}, with([](SamplingParams& p) { p.repeat_penalty = 2; }), {1}) == 2);
  for (int size = 1; size < 70; ++size) {
    std::vector<float> logits(size);
    for (int i = 0; i < size; ++i) logits[i] = static_cast<float>(uniform(1, size, i) - 0.5);
    const auto best = std::max_element(logits.begin(), logits.end()) - logits.begin();
    CHECK(greedy(logits) == best);
  }
}

TEST_CASE("reported log-probabilities are the model's own") {
  const std::vector<float> logits = logs({0.1f, 0.5f, 0.15f, 0.25f});
  SamplingParams params;
  params.temperature = 0;
  params.logit_bias = {{1, -kInf}};
  params.presence_penalty = 9;
  params.top_logprobs = 3;
  Sampler sampler;
  const Ids history = {3};
  const Picked& picked = sampler.pick(logits, params, {0, 0, history});
  CHECK(picked.token == 2);
  CHECK(picked.logprob == Approx(std::log(0.15)).epsilon(1e-6));
  REQUIRE(picked.top.size() == 3);
  CHECK(picked.top[0].first == 1);
  CHECK(picked.top[0].second == Approx(std::log(0.5)).epsilon(1e-6));
  CHECK(picked.top[1].first == 3);
  CHECK(picked.top[2].first == 2);
  CHECK(picked.top[2].second == picked.logprob);

  params = SamplingParams();
  params.top_logprobs = 3;
  const Picked& masked = sampler.pick(std::vector<float>{2, -kInf, 2}, params, {});
  REQUIRE(masked.top.size() == 2);  // a token with logit -inf has no log-probability
  CHECK(masked.top[0].first == 0);
  CHECK(masked.top[1].first == 2);
  CHECK(masked.logprob == Approx(std::log(0.5)).epsilon(1e-6));
  params.top_logprobs = 0;
  CHECK(sampler.pick(logits, params, {}).top.empty());
}

TEST_CASE("a pick depends on seed, request and position, and on nothing else") {
  std::vector<float> logits(500);
  for (int i = 0; i < 500; ++i) logits[i] = static_cast<float>(3 * uniform(2, 2, i));
  SamplingParams params = plain_sampling();
  params.seed = 1234;
  constexpr int kRequests = 20;
  constexpr int kPositions = 50;
  Sampler sampler;
  std::vector<Ids> forward(kRequests, Ids(kPositions));
  for (int r = 0; r < kRequests; ++r) {
    for (int p = 0; p < kPositions; ++p) {
      forward[r][p] = sampler.pick(logits, params, {static_cast<uint64_t>(r), p, {}}).token;
    }
  }
  Sampler other;
  int differs_by_seed = 0;
  int differs_by_request = 0;
  for (int p = kPositions - 1; p >= 0; --p) {
    for (int r = kRequests - 1; r >= 0; --r) {
      const SampleContext context{static_cast<uint64_t>(r), p, {}};
      // Other picks in between change nothing.
      SamplingParams noise = SamplingParams();
      noise.frequency_penalty = 1;
      const Ids history = {p, r, p};
      other.pick(logits, noise, {7, 7, history});
      CHECK(other.pick(logits, params, context).token == forward[r][p]);
      SamplingParams reseeded = params;
      reseeded.seed = 1235;
      differs_by_seed += other.pick(logits, reseeded, context).token != forward[r][p];
      differs_by_request += r > 0 && forward[r][p] != forward[r - 1][p];
    }
  }
  CHECK(differs_by_seed > 950);  // of 1000; about 4 agree by chance
  CHECK(differs_by_request > 900);
}

TEST_CASE("a known seed keeps giving the same first tokens") {
  // Users keep seeds in their notes.
  std::vector<float> logits(100);
  for (int i = 0; i < 100; ++i) logits[i] = 0.03125f * static_cast<float>(i * 37 % 100);
  SamplingParams params;
  params.seed = 42;
  Sampler sampler;
  Ids tokens;
  for (int p = 0; p < 8; ++p) tokens.push_back(sampler.pick(logits, params, {0, p, {}}).token);
  CHECK(tokens == Ids{24, 16, 86, 13, 29, 89, 94, 70});
}

TEST_CASE("NaN and infinite logits are an error that gives their number and place") {
  std::vector<float> logits(100, 1.0f);
  logits[98] = NAN;
  CHECK(pick_error(logits) ==
        "the model's logits are not finite: 1 of 100 are NaN or +inf, the first for token 98; its "
        "weights are damaged, or a sum overflowed");
  logits[17] = kInf;
  logits[3] = -kInf;
  logits[40] = -NAN;
  CHECK(pick_error(logits).find("3 of 100 are NaN or +inf, the first for token 17;") !=
        std::string::npos);
  CHECK(pick_error(std::vector<float>(9, -kInf)) == "no token to pick: all 9 logits are -inf");
  SamplingParams ban;
  ban.logit_bias = {{0, -kInf}, {1, -kInf}};
  CHECK(pick_error({1, 2, -kInf}, ban) ==
        "no token to pick: the logit bias bans all that the model allows");
  ban.logit_bias = {{2, kInf}};
  CHECK(pick_error({1, 2, -kInf}, ban) ==
        "no token to pick: the logit bias bans all that the model allows");
}

}  // namespace skald
