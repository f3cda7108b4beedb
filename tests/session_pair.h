// Two sessions that get the same calls. The executor of one starts the next step together with each
// pick, the other's never does. Tokens, log-probabilities and the count of computed tokens must
// agree. Borrows both executors.
#pragma once

#include <algorithm>
#include <functional>

#include "engine/schedule/session.h"
#include "tests/catch.h"
#include "tests/engine/random_llama.h"

namespace skald::test {

inline void check_same(const Picked& picked, const Picked& expected) {
  REQUIRE(picked.token == expected.token);
  REQUIRE(picked.logprob == expected.logprob);
  REQUIRE(picked.top == expected.top);
}

// Forbids a few tokens, chosen by the last accepted token.
class Sieve final : public TokenFilter {
 public:
  std::span<const uint64_t> allowed() override {
    std::fill(std::begin(bits_), std::end(bits_), ~(uint64_t{0x11} << last_ % 50));
    return bits_;
  }
  void accept(int32_t token) override { last_ = token; }
  bool finished() const override { return false; }

 private:
  int32_t last_ = 0;
  uint64_t bits_[8] = {};
};

struct SessionPair {
  Session plain, ahead;

  SessionPair(Executor& of_plain, Executor& of_ahead) : plain(of_plain, {}), ahead(of_ahead, {}) {}

  void both(const std::function<void(Session&)>& act) {
    act(plain);
    act(ahead);
    REQUIRE(plain.tokens() == ahead.tokens());
    REQUIRE(plain.computed() == ahead.computed());
  }
  void next(int count, TokenFilter* filter_a = nullptr, TokenFilter* filter_b = nullptr) {
    for (int i = 0; i < count; ++i) {
      const Picked expected = plain.next(filter_a, true), picked = ahead.next(filter_b);
      check_same(picked, expected);
      if (filter_a) filter_a->accept(expected.token), filter_b->accept(picked.token);
    }
    REQUIRE(plain.tokens() == ahead.tokens());
    REQUIRE(plain.computed() == ahead.computed());
  }
};

using Roll = std::function<uint64_t(uint64_t sides)>;

// Makes 300 random steps: picks a token, or does something else that may happen between two picks.
// `other` gets a number from 1 to 5 first, and returns whether it did something itself.
inline void mix_everything(SessionPair& pair, int64_t longest,
                           const std::function<bool(uint64_t, const Roll&)>& other) {
  uint64_t dice = 1;
  const Roll roll = [&](uint64_t sides) {
    dice = dice * 6364136223846793005u + 1442695040888963407u;
    return (dice >> 33) % sides;
  };
  pair.both([&](Session& s) { s.feed(random_tokens(30, 1)); });
  for (int i = 0; i < 300; ++i) {
    CAPTURE(i);
    const auto length = static_cast<int64_t>(pair.plain.tokens().size());
    const uint64_t what = roll(8);
    if (what == 0) {
      const auto keep = static_cast<int64_t>(1 + roll(static_cast<uint64_t>(length)));
      pair.both([&](Session& s) { s.truncate(keep); });
    } else if (what == 1 && length <= longest) {
      const std::vector<int32_t> more = random_tokens(static_cast<int64_t>(roll(30)), roll(100));
      pair.both([&](Session& s) { s.feed(more); });
    } else if (what == 2) {
      SamplingParams params;
      params.temperature = static_cast<float>(roll(3)) / 2;
      params.repeat_penalty = roll(2) ? 1.0f : 1.2f;
      pair.both([&](Session& s) { s.set_sampling(params, 3); });
    } else if (what > 2 && !other(what - 2, roll) && !pair.plain.full()) {
      pair.next(1);
    }
  }
}

}  // namespace skald::test
