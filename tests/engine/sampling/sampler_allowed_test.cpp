// SampleContext::allowed restricts the pick to some tokens.
#include <cmath>

#include "engine/base/error.h"
#include "engine/sampling/sampler.h"
#include "tests/catch.h"
#include "tests/error_text.h"

namespace skald::test {
namespace {

struct Setup {
  std::vector<float> logits;
  std::vector<uint64_t> allowed;

  explicit Setup(size_t vocab) : allowed((vocab + 63) / 64) {
    for (size_t i = 0; i < vocab; ++i) {
      logits.push_back(std::sin(static_cast<float>(i) * 1.7f) * 4);
    }
  }
  void allow(size_t token) { allowed[token / 64] |= uint64_t{1} << (token % 64); }
  bool is_allowed(int32_t token) const {
    const auto id = static_cast<size_t>(token);
    return id / 64 < allowed.size() && (allowed[id / 64] >> (id % 64) & 1);
  }
};

SamplingParams settings(int which) {
  SamplingParams params;
  params.temperature = which % 2 ? 0 : 1.5f;
  params.top_k = which % 3 ? 40 : 0;
  params.top_p = which % 5 ? 0.95f : 1;
  params.min_p = which % 7 ? 0.05f : 0;
  params.typical_p = which % 11 ? 1 : 0.7f;
  if (which % 4 == 0) params.repeat_penalty = 1.3f;
  if (which % 6 == 0) params.logit_bias = {{3, 2.0f}, {70, -INFINITY}};
  params.top_logprobs = 3;
  return params;
}

TEST_CASE("only allowed tokens are picked, with any settings") {
  const std::vector<int32_t> history = {1, 3, 65, 3};
  for (int which = 0; which < 200; ++which) {
    Setup s(200);
    for (size_t i = 0; i < 1 + static_cast<size_t>(which) % 9; ++i) s.allow((i * 67 + 3) % 200);
    Sampler sampler;
    const SamplingParams params = settings(which);
    const Picked picked = sampler.pick(s.logits, params, {7, which, history, s.allowed});
    CHECK(s.is_allowed(picked.token));
    for (const auto& [id, share] :
         sampler.distribution(s.logits, params, {7, which, history, s.allowed})) {
      CHECK(s.is_allowed(id));
    }
    // The reported log-probabilities are those of the model, without the restriction.
    Sampler free;
    SamplingParams forced = params;
    forced.logit_bias = {{picked.token, INFINITY}};
    const Picked reference = free.pick(s.logits, forced, {7, which, history});
    CHECK(picked.logprob == reference.logprob);
    CHECK(picked.top == reference.top);
  }
}

TEST_CASE("allowing all tokens changes nothing, and the greedy pick is the best allowed token") {
  Setup s(130);
  for (size_t i = 0; i < 130; ++i) s.allow(i);
  for (int which = 0; which < 60; ++which) {
    const SamplingParams params = settings(which);
    CHECK(Sampler().pick(s.logits, params, {1, which, {}, s.allowed}).token ==
          Sampler().pick(s.logits, params, {1, which, {}}).token);
  }
  Setup few(130);
  few.allow(5), few.allow(64), few.allow(129);
  SamplingParams greedy;
  greedy.temperature = 0;
  const int32_t best = few.logits[5] > few.logits[64] ? 5 : 64;
  CHECK(Sampler().pick(few.logits, greedy, {0, 0, {}, few.allowed}).token ==
        (few.logits[129] > few.logits[best] ? 129 : best));
}

TEST_CASE("a mask shorter than the logits forbids the rest, and a longer one is cut") {
  Setup s(200);
  s.allow(2);
  const std::span<const uint64_t> shorter = std::span(s.allowed).first(1);
  CHECK(Sampler().pick(s.logits, {}, {0, 0, {}, shorter}).token == 2);
  std::vector<uint64_t> longer(10, ~uint64_t{0});
  longer[0] = longer[1] = longer[2] = longer[3] = 0;
  const std::string said = error_text(
      [&] {
        Sampler().pick(s.logits, {}, {0, 0, {}, longer});
      },
      Exit::Failed);
  CHECK(has(said, "all that the grammar allows"));
}

TEST_CASE("when model or bias ban every allowed token, the pick is an error") {
  Setup s(100);
  s.allow(9);
  SamplingParams banned;
  banned.logit_bias = {{9, -INFINITY}};
  CHECK(has(error_text(
                [&] {
                  Sampler().pick(s.logits, banned, {0, 0, {}, s.allowed});
                },
                Exit::Failed),
            "the logit bias bans all"));
  s.logits[9] = -INFINITY;
  CHECK(has(error_text(
                [&] {
                  Sampler().pick(s.logits, {}, {0, 0, {}, s.allowed});
                },
                Exit::Failed),
            "all that the grammar allows here have logits of -inf"));
}

}  // namespace
}  // namespace skald::test
