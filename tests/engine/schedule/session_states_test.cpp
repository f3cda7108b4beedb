// Sessions and schedulers of a model with recurrent states. A state cannot be shortened, so these
// tests take back, fork, save and restore, and compare with a session that did none of it.
#include <algorithm>
#include <map>
#include <random>

#include "engine/base/error.h"
#include "engine/cpu/executor.h"
#include "engine/schedule/scheduler.h"
#include "engine/schedule/session.h"
#include "engine/step/step.h"
#include "models/open.h"
#include "tests/catch.h"
#include "tests/engine/schedule/timed_executor.h"
#include "tests/engine/wrapped_executor.h"
#include "tests/recurrent_model.h"
#include "tests/temp_folder.h"

namespace skald::test {
namespace {

using Tokens = std::vector<int32_t>;

const Model& recurrent_model() {
  static const TempFolder temp;
  static const OpenedModel opened =
      open_model(temp.write("recurrent.gguf", RecurrentGguf().file()));
  return opened.model;
}

std::unique_ptr<Executor> executor_of(int checkpoints, int sequences = 1) {
  RunOptions options;
  options.threads = 1;
  options.context = 512;
  options.rows = 40;  // less than most prompts below
  options.sequences = sequences;
  options.checkpoints = checkpoints;
  return cpu::make_executor(recurrent_model(), options);
}

Tokens random_tokens(int count, unsigned seed) {
  std::mt19937 random(seed);
  Tokens tokens;
  for (int i = 0; i < count; ++i) tokens.push_back(static_cast<int32_t>(3 + random() % 250));
  return tokens;
}

SamplingParams sampling() {
  SamplingParams params;
  params.temperature = 1;
  params.seed = 11;
  return params;
}

Tokens generate_some(Session& session, int count) {
  Tokens tokens;
  for (int i = 0; i < count; ++i) tokens.push_back(session.next().token);
  return tokens;
}

// What a session answers that has never been anything else.
Tokens answer_to(const Tokens& tokens, int count) {
  const auto executor = executor_of(0);
  Session session(*executor, sampling());
  session.feed(tokens);
  return generate_some(session, count);
}

// Runs out of memory in the middle of some steps, whose tokens it takes back, as RankExecutor does.
class ForgetfulExecutor final : public WrappedExecutor {
 public:
  ForgetfulExecutor(std::unique_ptr<Executor> inner, int each)
      : WrappedExecutor(std::move(inner)), each_(each) {}

  int64_t run(Step step) override {
    const int64_t rows = inner_->run(step);
    constexpr int kMost = 3;  // later there is memory
    if (++steps_ % each_ != 0 || steps_ > kMost * each_) return rows;
    take_back(step);
    fail(Exit::Memory, "no memory for a moment");
  }

 private:
  int each_, steps_ = 0;
};

}  // namespace

TEST_CASE("a step that runs out of memory midway is computed again from a state before it") {
  const Tokens prompt = random_tokens(60, 5);
  const Tokens expected = answer_to(prompt, 20);
  for (const int checkpoints : {0, 2}) {
    ForgetfulExecutor executor(executor_of(checkpoints), 7);
    Session session(executor, sampling());
    session.feed(prompt);
    CHECK(generate_some(session, 20) == expected);
  }
}

TEST_CASE(
    "tokens appended to a session with states are computed as fed ones, and keep no state of their "
    "own") {
  const Tokens prompt = random_tokens(60, 5);
  const auto executor = executor_of(kSessionCheckpoints);
  Session session(*executor, sampling());
  session.feed(prompt);
  Tokens all = prompt;
  for (int round = 0; round < 2 * kSessionCheckpoints; ++round) {
    all.push_back(session.next().token);
    for (const int32_t token : {7, 8, 9}) {
      session.append(token);
      all.push_back(token);
    }
  }
  CHECK(generate_some(session, 5) == answer_to(all, 5));
  // The state before the prompt's last token is still kept.
  CHECK(session.savable(std::ssize(prompt)) == std::ssize(prompt) - 1);
}

TEST_CASE("an answer that is taken back is given again, whatever was kept of the states") {
  const Tokens prompt = random_tokens(100, 1);
  const Tokens expected = answer_to(prompt, 12);
  for (const int checkpoints : {0, 1, 4}) {
    const auto executor = executor_of(checkpoints);
    Session session(*executor, sampling());
    session.feed(prompt);
    CHECK(generate_some(session, 12) == expected);
    for (int round = 0; round < 2; ++round) {
      session.truncate(100);
      // With a checkpoint, nothing of the prompt is computed again but its last token.
      CHECK(session.computed() == (checkpoints > 0 ? 99 : 0));
      CHECK(generate_some(session, 12) == expected);
    }
  }
}

TEST_CASE("a session cut anywhere goes on like one that was never longer") {
  const Tokens prompt = random_tokens(100, 1), more = random_tokens(50, 2),
               other = random_tokens(20, 3);
  const auto executor = executor_of(kSessionCheckpoints);
  for (const int64_t length : {0, 50, 99, 100, 101, 149, 150, 155}) {
    CAPTURE(length);
    Session session(*executor, sampling());
    session.feed(prompt);
    session.next();
    session.truncate(100);
    session.feed(more);
    generate_some(session, 8);
    session.truncate(length);
    Tokens tokens = session.tokens();
    CHECK(std::ssize(tokens) == length);
    session.feed(other);
    tokens.insert(tokens.end(), other.begin(), other.end());
    CHECK(generate_some(session, 3) == answer_to(tokens, 3));
  }
}

TEST_CASE("a saved state and its pages continue in another executor") {
  const Tokens prompt = random_tokens(100, 1);
  const Tokens expected = answer_to(prompt, 20);
  const auto executor = executor_of(kSessionCheckpoints);
  Session session(*executor, sampling());
  session.feed(prompt);
  generate_some(session, 20);
  CHECK(session.savable(100) == 99);
  CHECK(session.savable(98) == 0);
  CHECK(session.savable(1000) == session.computed());
  const int64_t length = session.savable(100);
  std::vector<std::vector<std::byte>> parts;
  for (int64_t i = 0; i < pages_for(length); ++i) {
    parts.emplace_back(static_cast<size_t>(executor->page_bytes()));
    session.read_page(i, parts.back());
  }
  parts.emplace_back(static_cast<size_t>(executor->state_bytes()));
  session.read_state(length, parts.back());

  const auto other = executor_of(kSessionCheckpoints);
  const auto restored = [&](Session& to) {
    to.restore(std::span(prompt).first(static_cast<size_t>(length)),
               [&](int64_t i, std::span<std::byte> bytes) {
                 REQUIRE(bytes.size() == parts[static_cast<size_t>(i)].size());
                 std::ranges::copy(parts[static_cast<size_t>(i)], bytes.begin());
               });
    to.feed(std::span(prompt).subspan(static_cast<size_t>(length)));
    return generate_some(to, 20);
  };
  {
    Session to(*other, sampling());
    CHECK(restored(to) == expected);
    to.truncate(100);
    CHECK(to.computed() == 99);
    CHECK(generate_some(to, 20) == expected);
  }
  std::ranges::fill(parts.back(), std::byte{0});  // the state is really used
  Session to(*other, sampling());
  CHECK(restored(to) != expected);
}

TEST_CASE("a forked sequence and its origin go on independently") {
  const auto executor = executor_of(0, 3);
  const Tokens prompt = random_tokens(30, 1), tail = random_tokens(10, 2);
  const auto logits_after = [&](Sequence& sequence, const Tokens& tokens) {
    const SeqRows rows{&sequence, tokens, Want::LastRow};
    executor->run({&rows, 1});
    const auto logits = executor->logits(0);
    return std::vector<float>(logits.begin(), logits.end());
  };
  Sequence a = executor->new_sequence();
  logits_after(a, prompt);
  Sequence b = a.fork(), c = a.fork();
  const auto of_b = logits_after(b, tail);
  CHECK(logits_after(a, random_tokens(10, 3)) != of_b);
  CHECK(logits_after(c, tail) == of_b);
}

TEST_CASE("texts go on after steps that ran out of memory midway") {
  ForgetfulExecutor executor(executor_of(0, 4), 9);
  Scheduler scheduler(executor, {.sequences = 4});
  std::vector<Generation> generations(3);
  for (size_t i = 0; i < generations.size(); ++i) {
    Generation& generation = generations[i];
    generation.prompt = random_tokens(45 + 5 * static_cast<int>(i), static_cast<unsigned>(i));
    generation.params = sampling();
    generation.max_tokens = 12;
    generation.streams = {i};
    generation.cancelled = std::make_unique<std::atomic<bool>[]>(1);
    scheduler.add(generation);
  }
  std::map<const Generation*, Tokens> answers;
  for (int step = 0; !scheduler.idle() && step < 2000; ++step) {
    for (const GenerationEvent& event : scheduler.step()) {
      if (event.kind != GenerationEvent::Kind::Token) continue;
      answers[event.generation].push_back(event.picked.token);
    }
  }
  CHECK(scheduler.counts().lowered > 0);
  for (const Generation& generation : generations) {
    const auto alone = executor_of(0);
    Session session(*alone, sampling(), generation.streams.front());
    session.feed(generation.prompt);
    CHECK(answers[&generation] == generate_some(session, 12));
  }
}

TEST_CASE("many texts at a time, several answers to one prompt, and preemptions change nothing") {
  RunOptions options;
  options.threads = 1;
  options.context = 192;
  options.rows = 24;
  options.sequences = 4;
  options.cache_tokens = 320;  // too few for all of them, so that texts are preempted
  TimedExecutor executor(cpu::make_executor(recurrent_model(), options));
  const bool swaps = GENERATE(false, true);
  Scheduler scheduler(executor, {.sequences = 4, .swap = {swaps ? 1 << 30 : 0}}, executor.clock());
  constexpr int kSamples = 2;
  constexpr int64_t kNew = 40;
  std::vector<Generation> generations(3);
  for (size_t i = 0; i < generations.size(); ++i) {
    Generation& generation = generations[i];
    generation.prompt = random_tokens(45 + 5 * static_cast<int>(i), static_cast<unsigned>(i));
    generation.params = sampling();
    generation.max_tokens = kNew;
    generation.streams = {2 * i, 2 * i + 1};
    generation.cancelled = std::make_unique<std::atomic<bool>[]>(kSamples);
    scheduler.add(generation);
  }
  std::map<std::pair<const Generation*, int>, Tokens> answers;
  while (!scheduler.idle()) {
    for (const GenerationEvent& event : scheduler.step()) {
      if (event.kind != GenerationEvent::Kind::Token) continue;
      answers[{event.generation, event.sample}].push_back(event.picked.token);
    }
  }
  CHECK(scheduler.counts().preemptions > 0);
  CHECK(scheduler.counts().shared_tokens == 0);
  CHECK(scheduler.counts().swapped == (swaps ? scheduler.counts().preemptions : 0));
  CHECK(executor.states_back == scheduler.counts().swapped);
  CHECK(scheduler.swap_space().bytes_used() == 0);
  for (const Generation& generation : generations) {
    for (int sample = 0; sample < kSamples; ++sample) {
      const auto alone = executor_of(0);
      Session session(*alone, sampling(), generation.streams[static_cast<size_t>(sample)]);
      session.feed(generation.prompt);
      CHECK(answers[{&generation, sample}] == generate_some(session, kNew));
    }
  }
}

}  // namespace skald::test
