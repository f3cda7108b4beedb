// Sessions that guess tokens: the text is that of a session that does not, whatever is guessed.
#include <algorithm>

#include "engine/base/rng.h"
#include "engine/cpu/executor.h"
#include "engine/schedule/session.h"
#include "engine/speculate/ngram.h"
#include "models/open.h"
#include "tests/catch.h"
#include "tests/engine/random_llama.h"
#include "tests/engine/schedule/ahead_executor.h"
#include "tests/engine/schedule/small_executor.h"
#include "tests/recurrent_model.h"
#include "tests/temp_folder.h"

namespace skald::test {
namespace {

using Tokens = std::vector<int32_t>;

// Guesses the tokens of a text that it knows, some of them wrong.
class Knowing final : public Proposer {
 public:
  Knowing(Tokens text, double wrong) : text_(std::move(text)), wrong_(wrong) {}
  int kinds() const override { return 1; }
  Offer offer(const GuessedText& text, int most) override {
    return {0, static_cast<int>(std::clamp<int64_t>(left(text), 0, most))};
  }
  std::vector<int32_t> guess(const GuessedText& text, int count) override {
    Tokens guesses;
    for (size_t at = text.tokens.size(); std::ssize(guesses) < count; ++at) {
      const bool wrong = uniform(1, 0, static_cast<int64_t>(at)) < wrong_;
      guesses.push_back(wrong ? (text_[at] + 1) % 200 : text_[at]);
    }
    return guesses;
  }

 private:
  int64_t left(const GuessedText& text) const {
    return std::ssize(text_) - std::ssize(text.tokens);
  }

  Tokens text_;
  double wrong_;
};

std::unique_ptr<Guesser> guesser(std::unique_ptr<Proposer> proposer, int most) {
  return std::make_unique<Guesser>(std::move(proposer), most);
}

SamplingParams params_of(double temperature, bool penalties) {
  SamplingParams params;
  params.seed = 5;
  params.temperature = static_cast<float>(temperature);
  if (penalties) params.repeat_penalty = 1.3f;
  return params;
}

Tokens take(Session& session, int count) {
  for (int i = 0; i < count; ++i) session.next();
  return session.tokens();
}

TEST_CASE("guesses change no token") {
  const Tokens prompt = random_tokens(20, 1);
  for (const double temperature : {0.0, 1.0}) {
    for (const bool penalties : {false, true}) {
      const auto executor = small_executor({.sequences = 3});
      const SamplingParams params = params_of(temperature, penalties);
      Session plain(*executor, params);
      plain.feed(prompt);
      const Tokens expected = take(plain, 120);
      for (const double wrong : {0.0, 0.2, 1.0}) {
        CAPTURE(temperature, penalties, wrong);
        Session session(*executor, params);
        session.guess(guesser(std::make_unique<Knowing>(expected, wrong), 5));
        session.feed(prompt);
        CHECK(take(session, 120) == expected);
        const GuessCounts counts = session.guesses();
        CHECK(counts.steps > 0);
        if (wrong == 0) CHECK(counts.right == counts.guesses);
        if (wrong == 0) CHECK(counts.right > 10);
        if (wrong == 1) CHECK(counts.right == 0);
      }
      Session repeats(*executor, params);
      repeats.guess(guesser(std::make_unique<NgramProposer>(), 7));
      repeats.feed(prompt);
      CHECK(take(repeats, 120) == expected);
      if (temperature == 0 && !penalties) CHECK(repeats.guesses().steps > 0);  // the text repeats
    }
  }
}

TEST_CASE("log-probabilities of guessed tokens are those of the tokens") {
  const auto executor = small_executor({.sequences = 3});
  SamplingParams params = params_of(1, false);
  params.top_logprobs = 3;
  Session plain(*executor, params);
  plain.feed(random_tokens(9, 2));
  std::vector<Picked> expected;
  expected.reserve(40);
  for (int i = 0; i < 40; ++i) expected.push_back(plain.next());
  Session session(*executor, params);
  session.guess(guesser(std::make_unique<Knowing>(plain.tokens(), 0.1), 4));
  session.feed(random_tokens(9, 2));
  for (const Picked& right : expected) {
    const Picked picked = session.next();
    CHECK(picked.token == right.token);
    CHECK(picked.logprob == right.logprob);
    CHECK(picked.top == right.top);
  }
  CHECK(session.guesses().right > 0);
}

// Guesses that were right but not asked for are no part of the session.
TEST_CASE("a session that guesses can be fed, truncated and read at any time") {
  const auto executor = small_executor({.sequences = 3});
  const SamplingParams params = params_of(1, false);
  const Tokens prompt = random_tokens(12, 3), more = random_tokens(7, 4);
  for (int count = 1; count < 12; ++count) {
    CAPTURE(count);
    Session plain(*executor, params), session(*executor, params);
    plain.feed(prompt);
    Tokens known = take(plain, count + 10);
    plain.truncate(std::ssize(prompt) + count);
    session.guess(guesser(std::make_unique<Knowing>(known, 0), 6));
    session.feed(prompt);
    CHECK(take(session, count) == plain.tokens());
    CHECK(session.computed() <= std::ssize(session.tokens()));
    std::vector<std::byte> page(static_cast<size_t>(executor->page_bytes()));
    session.read_page(0, page);
    if (count % 3 == 0) {
      plain.feed(more);
      session.feed(more);
    } else if (count % 3 == 1) {
      plain.truncate(std::ssize(prompt) + count / 2);
      session.truncate(std::ssize(prompt) + count / 2);
    } else {
      plain.append(7);
      session.append(7);
    }
    CHECK(session.tokens() == plain.tokens());
    CHECK(take(session, 8) == take(plain, 8));
  }
}

TEST_CASE("guesses end with the context and fit a step") {
  const Tokens prompt = random_tokens(12, 3);
  for (const int64_t rows : {1, 2, 4, 16}) {
    const auto executor = small_executor({.rows = rows, .sequences = 3});
    Session plain(*executor, params_of(0, false)), session(*executor, params_of(0, false));
    plain.feed(prompt);
    while (!plain.full()) plain.next();
    session.guess(guesser(std::make_unique<Knowing>(plain.tokens(), 0), 7));
    session.feed(prompt);
    while (!session.full()) session.next();
    CHECK(session.tokens() == plain.tokens());
    CHECK((session.guesses().steps > 0) == (rows > 1));
    if (rows > 1) CHECK(session.guesses().guesses <= session.guesses().steps * (rows - 1));
  }
}

TEST_CASE("no step is started early where guesses follow, and others are") {
  AheadExecutor executor(small_executor({.sequences = 3}));
  const SamplingParams params = params_of(0, false);
  Session plain(executor, params);
  plain.feed(random_tokens(12, 3));
  const Tokens expected = take(plain, 100);
  // The second half is not known, so there are no guesses.
  Session session(executor, params);
  session.guess(
      guesser(std::make_unique<Knowing>(Tokens(expected.begin(), expected.begin() + 60), 0), 5));
  session.feed(random_tokens(12, 3));
  take(session, 40);
  const int64_t ahead = executor.ahead;
  CHECK(session.guesses().right > 0);
  CHECK(take(session, 60) == expected);
  CHECK(executor.ahead > ahead + 30);
}

TEST_CASE("guesses that do not pay are tried again, also where steps are started early") {
  AheadExecutor executor(small_executor({.sequences = 3}));
  const SamplingParams params = params_of(0, false);
  Session plain(executor, params);
  plain.feed(random_tokens(12, 3));
  const Tokens expected = take(plain, 180);
  double now = 0;
  Session session(executor, params);
  session.guess(std::make_unique<Guesser>(std::make_unique<Knowing>(expected, 1), 5,
                                          [&now] { return now += 1; }));
  session.feed(random_tokens(12, 3));
  take(session, 70);
  const int64_t steps = session.guesses().steps, ahead = executor.ahead;
  CHECK(steps > 0);
  CHECK(take(session, 110) == expected);
  CHECK(session.guesses().steps > steps);
  CHECK(session.guesses().steps < steps + 5);
  CHECK(executor.ahead > ahead + 90);
}

// Tokens of RecurrentGguf's vocabulary.
Tokens recurrent_tokens(int count, uint64_t seed) {
  Tokens tokens = random_tokens(count, seed);
  for (int32_t& token : tokens) token %= static_cast<int32_t>(RecurrentGguf::kVocab);
  return tokens;
}

std::unique_ptr<Executor> recurrent_executor(int checkpoints) {
  const TempFolder temp;
  const OpenedModel opened = open_model(temp.write("recurrent.gguf", RecurrentGguf().file()));
  RunOptions options;
  options.threads = 1;
  options.context = 160;
  options.checkpoints = checkpoints;
  return cpu::make_executor(opened.model, options);
}

TEST_CASE("guesses change no token of a model with recurrent states") {
  const auto executor = recurrent_executor(kSessionCheckpoints + kGuessCheckpoints);
  const Tokens prompt = recurrent_tokens(9, 1), more = recurrent_tokens(5, 2);
  const auto talk = [&](Session& session) {
    session.feed(prompt);
    take(session, 40);
    session.feed(more);
    take(session, 40);
    const Tokens all = session.tokens();
    session.truncate(std::ssize(prompt) + 20);
    take(session, 20);
    CHECK(std::equal(session.tokens().begin(), session.tokens().end(), all.begin()));
    return all;
  };
  for (const double temperature : {0.0, 1.0}) {
    const auto plainly = [&] {
      Session plain(*executor, params_of(temperature, false));
      return talk(plain);
    };
    const Tokens expected = plainly();
    for (const double wrong : {0.0, 0.3, 1.0}) {
      CAPTURE(temperature, wrong);
      Session session(*executor, params_of(temperature, false));
      session.guess(guesser(std::make_unique<Knowing>(expected, wrong), 4));
      CHECK(talk(session) == expected);
      const GuessCounts counts = session.guesses();
      CHECK(counts.steps > 3);
      if (wrong == 0) CHECK(counts.right > 20);
      if (wrong == 1) CHECK(counts.right == 0);
    }
  }
}

// Without a slot for the state, nothing can be taken back, so nothing is guessed.
TEST_CASE("a recurrent state that cannot be kept has no guesses") {
  const auto executor = recurrent_executor(0);
  const auto text = [&](std::unique_ptr<Guesser> guesses) {
    Session session(*executor, params_of(0, false));
    if (guesses) session.guess(std::move(guesses));
    session.feed(recurrent_tokens(6, 1));
    const Tokens tokens = take(session, 20);
    CHECK(session.guesses().steps == 0);
    return tokens;
  };
  const Tokens expected = text(nullptr);
  CHECK(text(guesser(std::make_unique<Knowing>(expected, 0), 4)) == expected);
}

}  // namespace
}  // namespace skald::test
