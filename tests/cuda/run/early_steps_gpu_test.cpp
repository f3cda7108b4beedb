// A GPU may begin the next step with the pick of its tokens, before the host knows them. Such steps
// give what steps one after the other give, to the last bit.
#include <cstdio>

#include "cuda/cuda.h"
#include "cuda/gpu/faults.h"
#include "engine/schedule/session.h"
#include "models/open.h"
#include "tests/catch.h"
#include "tests/cuda/kernels/switches.h"
#include "tests/engine/random_llama.h"
#include "tests/error_text.h"
#include "tests/golden.h"
#include "tests/session_pair.h"

namespace skald::test {
namespace {

using Tokens = std::vector<int32_t>;

Model small_model() {
  switch (GENERATE(0, 1, 2)) {
    case 0:
      return random_llama({.type = DType::BF16});
    case 1:
      return random_llama({.type = DType::Q4_K});
    default:
      return random_llama({.type = DType::BF16, .experts = {8, 2, 512, true, {}}});
  }
}

std::unique_ptr<Executor> small_executor(const Model& model, int64_t context = 256,
                                         int sequences = 1) {
  RunOptions options;
  options.context = context;
  options.sequences = sequences;
  options.rows = 64;
  return cuda::make_executor(model, options, 0, switches());
}

class Forbidding final : public TokenFilter {
 public:
  std::span<const uint64_t> allowed() override { return {&none_, 1}; }
  void accept(int32_t) override {}
  bool finished() const override { return false; }

 private:
  uint64_t none_ = 0;
};

struct Executors {
  std::unique_ptr<Executor> plain_executor, ahead_executor;
};

struct Pair : Executors, SessionPair {
  explicit Pair(const Model& model, int64_t context = 256)
      : Executors{small_executor(model, context), small_executor(model, context)},
        SessionPair(*plain_executor, *ahead_executor) {}
};

}  // namespace

TEST_CASE("early steps pick the same tokens, whatever the settings", "[small][cublas][long]") {
  Pair pair(small_model());
  SamplingParams params;
  params.seed = 5;
  SECTION("greedy") { params.temperature = 0; }
  SECTION("by the defaults") {}
  SECTION("from all, with penalties, biases and the best tokens' probabilities") {
    params.top_k = 0, params.top_p = 1, params.min_p = 0;
    params.repeat_penalty = 1.3f;
    params.frequency_penalty = 0.2f;
    params.logit_bias = {{7, 1.0f}, {9, -2.0f}};
    params.top_logprobs = 4;
  }
  pair.both([&](Session& s) {
    s.set_sampling(params, 3);
    s.feed(random_tokens(60, 1));
  });
  pair.next(12);  // over the end of a page
  if (switches().graphs) {
    const int64_t before = pair.ahead_executor->last_step();
    pair.next(10);
    CHECK(pair.ahead_executor->last_step() == before + 10);
  }
}

TEST_CASE("settings that stay on the CPU have no early steps, and mix with those that have") {
  Pair pair(random_llama({.type = DType::BF16}));
  pair.both([&](Session& s) { s.feed(random_tokens(20, 1)); });
  for (int i = 0; i < 12; ++i) {
    SamplingParams params;
    if (i / 3 % 2) params.typical_p = 0.8f;
    params.top_logprobs = i % 5 == 4 ? 30 : 0;
    pair.both([&](Session& s) { s.set_sampling(params, 3); });
    pair.next(2);
  }
}

TEST_CASE("a filter is asked after the token before it, also while the next step runs") {
  Pair pair(random_llama({.type = DType::BF16}));
  Sieve a, b;
  pair.both([&](Session& s) { s.feed(random_tokens(20, 1)); });
  pair.next(60, &a, &b);
}

TEST_CASE("whatever happens between two picks on a GPU, early steps change nothing") {
  Pair pair(small_model());
  mix_everything(pair, 200, [](uint64_t, const Roll&) { return false; });
}

TEST_CASE("a sequence with early steps ends at the context's end like any other") {
  Pair pair(random_llama({.type = DType::BF16}), 100);
  pair.both([&](Session& s) { s.feed(random_tokens(80, 1)); });
  pair.next(20);
  CHECK(pair.ahead.full());
  pair.next(1);
  CHECK(has(error_text([&] { pair.ahead.next(); }, Exit::Failed), "the context holds 100"));
  CHECK(has(error_text([&] { pair.plain.next(); }, Exit::Failed), "the context holds 100"));
}

TEST_CASE("a pick that fails on the GPU leaves the sequence as it was") {
  Pair pair(random_llama({.type = DType::BF16}));
  pair.both([&](Session& s) { s.feed(random_tokens(62, 1)); });
  pair.next(6);
  Forbidding forbidding;
  pair.both([&](Session& s) {
    const auto problem = error_text([&] { s.next(&forbidding); }, Exit::Failed);
    CHECK(has(problem, "all that the grammar allows here"));
  });
  pair.next(10);
}

TEST_CASE("without memory for the graph of early steps a sequence goes on without them") {
  const Model model = random_llama({.type = DType::BF16});
  Pair pair(model);
  pair.both([&](Session& s) { s.feed(random_tokens(20, 1)); });
  pair.next(2);  // the prompt, and a step without a graph
  for (int i = 0; i < 3; ++i) {
    const int64_t before = pair.ahead_executor->last_step();
    const Picked expected = pair.plain.next(nullptr, true);
    // The first call also makes the step's own graph.
    cuda::FailingAcquisition failing(i == 0 ? 2 : 1);
    check_same(pair.ahead.next(), expected);
    if (!switches().graphs) continue;
    CHECK(failing.happened());
    CHECK(pair.ahead_executor->last_step() == before + 1);
  }
  pair.next(5);
}

TEST_CASE("sequences of one executor with early steps take turns without mixing") {
  const Model model = random_llama({.type = DType::BF16});
  const auto text_of = [](Executor& executor, uint64_t request) {
    SamplingParams params;
    params.seed = 7;
    Session session(executor, params, request);
    session.feed(random_tokens(20 + static_cast<int64_t>(request), request));
    return session;
  };
  const auto plain = small_executor(model, 256, 4), ahead = small_executor(model, 256, 4);
  std::vector<Tokens> expected;
  std::vector<Session> sessions;  // sessions move in memory
  for (uint64_t r = 0; r < 3; ++r) {
    Session session = text_of(*plain, r);
    for (int i = 0; i < 40; ++i) session.next(nullptr, true);
    expected.push_back(session.tokens());
    sessions.push_back(text_of(*ahead, r));
  }
  for (int turn = 0; turn < 10; ++turn) {
    for (Session& session : sessions) {
      for (int i = 0; i < 4; ++i) session.next();
    }
  }
  for (size_t r = 0; r < 3; ++r) CHECK(sessions[r].tokens() == expected[r]);
}

// Rows of a step are continued together: after a step of prompts, over the end of a page, and while
// one half of a page is shared with another sequence.
TEST_CASE("several sequences have early steps together", "[small][cublas][long]") {
  const Model model = small_model();
  constexpr size_t kTexts = 5;
  struct Texts {
    std::unique_ptr<Executor> executor;
    std::vector<Sequence> sequences;
    std::vector<Tokens> tokens;
    std::vector<Picked> picks;
    int64_t ahead = 0;
  };
  const auto write = [&](bool ahead) {
    Texts texts{small_executor(model, 256, 8), {}, {}, {}};
    std::vector<Sequence*> sequences;
    SamplingParams params;
    params.seed = 3;
    for (size_t s = 0; s < kTexts; ++s) {
      texts.sequences.push_back(texts.executor->new_sequence());
      texts.tokens.push_back(random_tokens(static_cast<int64_t>(3 + s), s));
    }
    for (Sequence& sequence : texts.sequences) sequences.push_back(&sequence);
    std::optional<Sequence> fork;
    bool begun = false;
    for (int i = 0; i < 80; ++i) {
      std::vector<SeqRows> rows;
      std::vector<PickRequest> requests;
      for (size_t s = 0; s < kTexts; ++s) {
        const Tokens& text = texts.tokens[s];
        const auto length = static_cast<size_t>(begun ? 0 : texts.sequences[s].length());
        rows.push_back({&texts.sequences[s], std::span(text).subspan(length), Want::LastRow});
        requests.push_back({&params, {s, static_cast<int64_t>(text.size()), text, {}}});
      }
      if (!begun) texts.executor->run(rows);
      if (i == 20) fork.emplace(texts.sequences[1].fork());
      Picks picks = ahead ? texts.executor->pick_and_run(requests, sequences)
                          : Picks{texts.executor->pick(requests)};
      begun = picks.step != 0;
      texts.ahead += begun;
      for (size_t s = 0; s < kTexts; ++s) texts.tokens[s].push_back(picks.picked[s].token);
      std::move(picks.picked.begin(), picks.picked.end(), std::back_inserter(texts.picks));
    }
    if (begun) {
      for (Sequence& sequence : texts.sequences) sequence.truncate(sequence.length() - 1);
    }
    // The other sequence of the fork is as it was.
    const Tokens one{texts.tokens[1][static_cast<size_t>(fork->length())]};
    const SeqRows last{&*fork, one, Want::LastRow};
    texts.executor->run({&last, 1});
    const PickRequest request{&params, {1, fork->length(), {}, {}}};
    texts.picks.push_back(texts.executor->pick({&request, 1}).front());
    return texts;
  };
  const Texts plain = write(false), ahead = write(true);
  CHECK(plain.tokens == ahead.tokens);
  REQUIRE(plain.picks.size() == ahead.picks.size());
  for (size_t i = 0; i < plain.picks.size(); ++i) check_same(ahead.picks[i], plain.picks[i]);
  CHECK(plain.ahead == 0);
  if (switches().graphs) CHECK(ahead.ahead == 78);  // the first two steps make a graph
}

TEST_CASE("steps that must not begin early do not") {
  const Model model = random_llama({.type = DType::BF16});
  RunOptions options;
  options.context = 256;
  bool observed = false;
  SECTION("reproducible steps") { options.reproducible = true; }
  SECTION("steps that are observed") { observed = true; }
  const auto executor = cuda::make_executor(model, options, 0, switches());
  if (observed) executor->observe([](const OpOutput&) {});
  Session session(*executor, {});
  session.feed(random_tokens(20, 1));
  for (int i = 0; i < 6; ++i) session.next();
  const int64_t before = executor->last_step();
  session.next();
  CHECK(executor->last_step() == before + 1);
  CHECK(session.computed() + 1 == static_cast<int64_t>(session.tokens().size()));
}

TEST_CASE("the clock counts early steps") {
  const auto executor = small_executor(random_llama({.type = DType::BF16}), 1024);
  Session session(*executor, {});
  session.feed(random_tokens(20, 1));
  for (int i = 0; i < 5; ++i) session.next();
  const double before = executor->device_seconds();
  for (int i = 0; i < 200; ++i) session.next();
  const double seconds = executor->device_seconds() - before;
  std::printf("200 steps ahead of a small model: %.1f us each on the GPU's clock\n",
              seconds * 1e6 / 200);
  CHECK(seconds > 200 * 5e-6);
  CHECK(seconds < 200 * 2e-3);
}

}  // namespace skald::test
