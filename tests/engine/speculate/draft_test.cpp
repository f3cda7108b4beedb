// A draft model as the one who guesses: what it guesses, what its cache holds, and that the text
// stays the same.
#include "engine/speculate/one_text.h"

#include <algorithm>

#include "engine/cpu/executor.h"
#include "engine/schedule/session.h"
#include "tests/catch.h"
#include "tests/engine/random_llama.h"
#include "tests/engine/wrapped_executor.h"

namespace skald::test {
namespace {

using Tokens = std::vector<int32_t>;

constexpr int64_t kVocab = 300;

struct Small {
  uint64_t seed = 1;
  int64_t vocab = kVocab, context = 200, rows = 16;
  int sequences = 1;
};

std::unique_ptr<Executor> small(const Small& how = {}) {
  RunOptions options;
  options.threads = 1;
  options.rows = how.rows;
  options.sequences = how.sequences;
  options.context = how.context;
  return cpu::make_executor(
      random_llama({.type = DType::Q8_0, .seed = how.seed, .layers = 1, .vocab = how.vocab}),
      options);
}

std::unique_ptr<DraftProposer> draft(const Small& how = {}) {
  return std::make_unique<DraftProposer>(small(how), kVocab);
}

SamplingParams params_of(double temperature, float penalty = 1) {
  SamplingParams params;
  params.seed = 5;
  params.temperature = static_cast<float>(temperature);
  params.repeat_penalty = penalty;
  return params;
}

// Steps that are so cheap beside guesses, or the other way round, that all guesses pay or none.
SecondsClock counting(double& now) {
  return [&now] { return now += 1; };
}

Tokens take(Session& session, int count) {
  for (int i = 0; i < count; ++i) session.next();
  return session.tokens();
}

Tokens guesses_of(DraftProposer& proposer, const Tokens& tokens, int most,
                  const SamplingParams& params = params_of(0)) {
  const GuessedText text{tokens, &params};
  const int count = proposer.offer(text, most).count;
  if (count == 0) return {};
  for (int calls = 0; !proposer.catch_up(text);) {
    if (++calls > 100) return {};
  }
  return proposer.guess(text, count);
}

// What a model writes after these tokens, all computed anew.
Tokens written(const Small& how, const Tokens& tokens, int count, const SamplingParams& params) {
  const auto executor = small(how);
  Session session(*executor, params);
  session.feed(tokens);
  const Tokens all = take(session, count);
  return {all.begin() + std::ssize(tokens), all.end()};
}

TEST_CASE("a draft model guesses what it would write itself, drawn as the text is drawn") {
  const Tokens prompt = random_tokens(20, 1);
  for (const double temperature : {0.0, 1.0}) {
    for (const float penalty : {1.0f, 1.5f}) {
      SamplingParams params = params_of(temperature, penalty);
      params.logit_bias = {{7, 2.0f}, {9, -INFINITY}};
      const auto proposer = draft({.seed = 3});
      CHECK(guesses_of(*proposer, prompt, 12, params) == written({.seed = 3}, prompt, 12, params));
    }
  }
}

// Tokens are dropped, replaced and added in every way. The logits are equal to the last bit, since
// the CPU's do not depend on how tokens are divided into steps.
TEST_CASE("after tokens were taken back, guesses are those of a fresh computation") {
  const Small how = {.seed = 3, .rows = 4};
  auto executor = small(how);
  Executor& own = *executor;
  DraftProposer proposer(std::move(executor), kVocab);
  Tokens text = random_tokens(30, 1);
  for (int round = 0; round < 60; ++round) {
    CAPTURE(round);
    CHECK(guesses_of(proposer, text, 1).size() == 1);
    const auto fresh = small(how);
    Session session(*fresh, params_of(0));
    session.feed(text);
    session.next(nullptr, true);
    const auto expected = fresh->logits(0), logits = own.logits(0);
    CHECK(std::equal(logits.begin(), logits.end(), expected.begin(), expected.end()));

    const Tokens guesses = guesses_of(proposer, text, 5);
    CHECK(guesses == written(how, text, 5, params_of(0)));
    switch (round % 5) {
      case 0:  // some guesses were right
        text.insert(text.end(), guesses.begin(), guesses.begin() + round % 4);
        text.push_back(round);
        break;
      case 1:  // all were right
        text.insert(text.end(), guesses.begin(), guesses.end());
        text.push_back(round);
        break;
      case 2:  // an answer is taken back
        text.resize(text.size() - std::min<size_t>(text.size() - 1, 9));
        break;
      case 3:  // another turn
        for (const int32_t token : random_tokens(12, static_cast<uint64_t>(round))) {
          text.push_back(token);
        }
        break;
      default:  // another text
        text = random_tokens(8 + round, static_cast<uint64_t>(round));
    }
  }
  guesses_of(proposer, text, 1);
  CHECK(std::equal(text.begin(), text.end(), proposer.text().computed().begin()));
}

TEST_CASE("a session with a draft model writes the same text") {
  const Tokens prompt = random_tokens(20, 1);
  for (const double temperature : {0.0, 1.0}) {
    for (const float penalty : {1.0f, 1.3f}) {
      CAPTURE(temperature, penalty);
      const SamplingParams params = params_of(temperature, penalty);
      const auto executor = small({.sequences = 3});
      Session plain(*executor, params, 4);
      plain.feed(prompt);
      const Tokens expected = take(plain, 120);
      double now = 0;

      Session equal(*executor, params, 4);  // the draft model is the model itself
      equal.guess(std::make_unique<Guesser>(draft(), 5, counting(now)));
      equal.feed(prompt);
      CHECK(take(equal, 120) == expected);
      CHECK(equal.guesses().steps > 0);
      CHECK(equal.guesses().right == equal.guesses().guesses);  // all of them

      Session other(*executor, params, 4);  // another model, which is mostly wrong
      other.guess(std::make_unique<Guesser>(draft({.seed = 8}), 5, counting(now)));
      other.feed(prompt);
      CHECK(take(other, 120) == expected);
      CHECK(other.guesses().steps > 0);
      CHECK(other.guesses().right < other.guesses().guesses);
    }
  }
}

TEST_CASE("a session with a draft model can be fed and truncated at any time") {
  const auto executor = small({.sequences = 2});
  const SamplingParams params = params_of(1);
  const Tokens prompt = random_tokens(12, 3), more = random_tokens(7, 4);
  double now = 0;
  Session plain(*executor, params), session(*executor, params);
  session.guess(std::make_unique<Guesser>(draft(), 6, counting(now)));
  plain.feed(prompt);
  session.feed(prompt);
  for (int turn = 1; turn < 8; ++turn) {
    CAPTURE(turn);
    CHECK(take(session, 7 + turn) == take(plain, 7 + turn));
    for (Session* each : {&plain, &session}) {
      if (turn % 3 == 0) each->truncate(std::ssize(prompt) + turn);
      if (turn % 3 == 1) each->feed(more);
      if (turn % 3 == 2) each->append(7);
    }
  }
  CHECK(session.guesses().right > 10);
}

TEST_CASE("tokens that only one of two vocabularies has are neither seen nor guessed") {
  // The draft model has 260 tokens, or 340; the text's model has 300.
  const Tokens prompt = {5, 290, 17, 299, 9, 4, 260, 8, 11};
  Tokens known = prompt;
  std::erase_if(known, [](int32_t token) { return token >= 260; });
  const auto shorter = draft({.seed = 3, .vocab = 260});
  CHECK(guesses_of(*shorter, prompt, 6) ==
        written({.seed = 3, .vocab = 260}, known, 6, params_of(0)));
  SamplingParams biased = params_of(1);
  biased.logit_bias = {{299, 5.0f}};
  CHECK(guesses_of(*shorter, prompt, 6, biased).size() == 6);

  Tokens expected = written({.seed = 9, .vocab = 340}, prompt, 30, params_of(1));
  const auto end =
      std::find_if(expected.begin(), expected.end(), [](int32_t token) { return token >= kVocab; });
  REQUIRE(end != expected.end());
  expected.erase(end, expected.end());
  CHECK(guesses_of(*draft({.seed = 9, .vocab = 340}), prompt, 30, params_of(1)) == expected);
}

TEST_CASE("a draft model whose context is full guesses no more, and the text goes on") {
  const auto executor = small({.sequences = 2});
  const SamplingParams params = params_of(0);
  Session plain(*executor, params), session(*executor, params);
  plain.feed(random_tokens(20, 1));
  const Tokens expected = take(plain, 150);
  double now = 0;
  session.guess(std::make_unique<Guesser>(draft({.context = 64}), 6, counting(now)));
  session.feed(random_tokens(20, 1));
  take(session, 46);
  const int64_t steps = session.guesses().steps;
  CHECK(steps > 0);
  CHECK(take(session, 104) == expected);
  CHECK(session.guesses().steps <= steps + 1);
  CHECK(session.guesses().right == session.guesses().guesses);
  // When the text is short again, guesses come back.
  session.truncate(30);
  take(session, 20);
  CHECK(session.guesses().steps > steps + 1);
}

TEST_CASE("a long prompt is taken in by parts, each as long as a step") {
  const auto proposer = draft({.rows = 16});
  const Tokens prompt = random_tokens(100, 1);
  const SamplingParams params = params_of(0);
  const GuessedText text{prompt, &params};
  int parts = 1;
  for (; !proposer->catch_up(text); ++parts) {
    CHECK(std::ssize(proposer->text().computed()) == parts * 16);
  }
  CHECK(parts == 6);
  CHECK(proposer->guess(text, 3) == written({}, prompt, 3, params));
}

// An executor whose every step takes a time of its own.
class SlowExecutor final : public WrappedExecutor {
 public:
  SlowExecutor(std::unique_ptr<Executor> inner, double& now, double seconds)
      : WrappedExecutor(std::move(inner)), now_(now), seconds_(seconds) {}
  int64_t run(Step step) override {
    now_ += seconds_;
    return inner_->run(step);
  }

 private:
  double& now_;
  double seconds_;
};

struct Timed {
  GuessCounts counts;
  double seconds = 0;
};

Timed timed(double draft_seconds, int tokens) {
  double now = 0;
  SlowExecutor executor(small({.context = 1000}), now, 1);
  Session session(executor, params_of(0));
  auto slow = std::make_unique<SlowExecutor>(small({.context = 1000}), now, draft_seconds);
  session.guess(std::make_unique<Guesser>(std::make_unique<DraftProposer>(std::move(slow), kVocab),
                                          7, [&now] { return now; }));
  session.feed(random_tokens(12, 1));
  take(session, tokens);
  return {session.guesses(), now};
}

TEST_CASE("a slow draft model is left for plain decode, a quick one is used") {
  const Timed quick = timed(0.1, 400), slow = timed(2, 400);
  CHECK(quick.counts.right == quick.counts.guesses);
  CHECK(quick.seconds < 200);  // 400 without guesses
  CHECK(slow.counts.steps > 3);
  CHECK(slow.counts.guesses < 60);  // a few at first, then probes
  CHECK(slow.seconds < 600);
}

TEST_CASE("a draft model that fails ends guesses, and no text") {
  class Failing final : public WrappedExecutor {
   public:
    using WrappedExecutor::WrappedExecutor;
    int64_t run(Step) override { fail(Exit::Memory, "no memory"); }
  };
  const auto executor = small({.sequences = 2});
  Session plain(*executor, params_of(0)), session(*executor, params_of(0));
  plain.feed(random_tokens(12, 1));
  double now = 0;
  session.guess(std::make_unique<Guesser>(
      std::make_unique<DraftProposer>(std::make_unique<Failing>(small()), kVocab), 4,
      counting(now)));
  session.feed(random_tokens(12, 1));
  CHECK(session.guesses_ended_by().empty());
  CHECK(take(session, 40) == take(plain, 40));
  CHECK(session.guesses().steps == 0);
  CHECK(session.guesses_ended_by() == "no memory");
}

// Two tokens of the text are one of the draft model.
class Pairs final : public Translation {
 public:
  Tokens to_draft(std::span<const int32_t> tokens) override {
    Tokens out;
    for (size_t i = 0; i + 1 < tokens.size(); i += 2) out.push_back(tokens[i] / 2);
    return tokens.size() % 2 == 0 ? out : Tokens();
  }
  Tokens from_draft(std::span<const int32_t> guesses) override {
    Tokens out;
    for (const int32_t guess : guesses) out.insert(out.end(), {2 * guess, 2 * guess + 1});
    return out;
  }
};

TEST_CASE("a draft model of another vocabulary guesses through a translation") {
  DraftProposer proposer(small({.seed = 3}), kVocab, [] { return std::make_unique<Pairs>(); });
  const Tokens text = {2, 3, 40, 41, 10, 11}, translated = {1, 20, 5};
  const Tokens own = written({.seed = 3}, translated, 5, params_of(0));
  const Tokens guesses = guesses_of(proposer, text, 5, params_of(1));  // greedy all the same
  CHECK(guesses == Tokens{2 * own[0], 2 * own[0] + 1, 2 * own[1], 2 * own[1] + 1, 2 * own[2]});
  const SamplingParams params = params_of(0);
  CHECK_FALSE(proposer.catch_up({std::span(text).first(5), &params}));
}

}  // namespace
}  // namespace skald::test
