// A session whose executor starts the next step together with each pick gives the same tokens as a
// session on any other executor.
#include "engine/cpu/executor.h"
#include "tests/engine/schedule/ahead_executor.h"
#include "tests/engine/schedule/small_executor.h"
#include "tests/error_text.h"
#include "tests/session_pair.h"

namespace skald::test {
namespace {

using Tokens = std::vector<int32_t>;

AheadExecutor ahead_executor(const SmallExecutor& small = {}) {
  return AheadExecutor(small_executor(small));
}

std::vector<std::byte> page(const Session& session, const Executor& executor, int64_t index) {
  std::vector<std::byte> bytes(static_cast<size_t>(executor.page_bytes()));
  session.read_page(index, bytes);
  return bytes;
}

struct Executors {
  std::unique_ptr<Executor> plain_executor = small_executor();
  AheadExecutor ahead_executor{small_executor()};
};

struct Pair : Executors, SessionPair {
  Pair() : SessionPair(*plain_executor, ahead_executor) {}
};

}  // namespace

TEST_CASE(
    "starting the next step with each pick gives the same tokens, with any sampling settings") {
  Pair pair;
  SamplingParams params;
  params.seed = 5;
  SECTION("greedy") { params.temperature = 0; }
  SECTION("by the defaults") {}
  SECTION("with penalties and the best tokens' probabilities") {
    params.repeat_penalty = 1.3f;
    params.frequency_penalty = 0.2f;
    params.top_logprobs = 4;
  }
  pair.both([&](Session& s) {
    s.set_sampling(params, 3);
    s.feed(random_tokens(50, 1));
  });
  pair.next(40);
  CHECK(pair.ahead_executor.ahead == 40);
}

TEST_CASE("a filter gets each token before the next pick, even if steps start with picks") {
  Pair pair;
  Sieve a, b;
  pair.both([&](Session& s) { s.feed(random_tokens(20, 1)); });
  pair.next(60, &a, &b);
}

TEST_CASE(
    "starting the next step with each pick changes nothing, whatever happens between two picks") {
  Pair pair;
  mix_everything(pair, 150, [&](uint64_t what, const Roll& roll) {
    const int64_t pages = pages_for(pair.plain.computed());
    if (what == 1 && pages > 1) {  // not the last page, whose unused rest is undefined
      const auto index = static_cast<int64_t>(roll(static_cast<uint64_t>(pages - 1)));
      CHECK(page(pair.plain, *pair.plain_executor, index) ==
            page(pair.ahead, pair.ahead_executor, index));
    } else if (what == 2) {
      pair.ahead_executor.refuses = !pair.ahead_executor.refuses;
    }
    return what <= 2;
  });
  CHECK(pair.ahead_executor.ahead > 50);
}

TEST_CASE(
    "appended tokens join the step that was started, and the next tokens are those of a fed "
    "session") {
  Pair pair;
  pair.both([&](Session& s) { s.feed(random_tokens(40, 1)); });
  for (uint64_t round = 1; round <= 5; ++round) {
    pair.next(2);
    const Tokens more = random_tokens(static_cast<int64_t>(round), round);
    pair.plain.feed(more);
    const int64_t before = pair.ahead_executor.last_step();
    for (const int32_t token : more) pair.ahead.append(token);
    CHECK(pair.ahead.computed() == std::ssize(pair.ahead.tokens()) - static_cast<int64_t>(round));
    pair.next(1);
    CHECK(pair.ahead_executor.last_step() == before + 2);  // one for all of them, one with the pick
  }
}

TEST_CASE("no step is started beyond the context, nor after the last token") {
  AheadExecutor executor = ahead_executor();
  Session session(executor, {});
  session.feed(random_tokens(197, 1));
  session.next(nullptr, true);
  CHECK(executor.ahead == 0);
  CHECK(session.computed() == 197);
  session.next();  // token 199 of 200
  CHECK(executor.ahead == 1);
  CHECK(session.computed() == 198);
  session.next();
  CHECK(session.full());
  CHECK(executor.ahead == 1);
  session.next();
  CHECK(has(error_text([&] { session.next(); }, Exit::Failed), "the context holds 200"));
}

TEST_CASE(
    "sessions on an executor that starts the next step with each pick take turns without mixing") {
  const auto text_of = [](Executor& executor, uint64_t request) {
    SamplingParams params;
    params.seed = 7;
    Session session(executor, params, request);
    session.feed(random_tokens(20 + static_cast<int64_t>(request), request));
    return session;
  };
  const auto plain = small_executor({.sequences = 3});
  AheadExecutor executor = ahead_executor({.sequences = 3});
  std::vector<Tokens> expected;
  std::vector<Session> sessions;  // sessions are movable
  for (uint64_t r = 0; r < 3; ++r) {
    Session session = text_of(*plain, r);
    for (int i = 0; i < 20; ++i) session.next();
    expected.push_back(session.tokens());
    sessions.push_back(text_of(executor, r));
  }
  for (int turn = 0; turn < 10; ++turn) {
    for (Session& session : sessions) session.next(), session.next();
  }
  for (size_t r = 0; r < 3; ++r) CHECK(sessions[r].tokens() == expected[r]);
  CHECK(executor.ahead == 60);
}

TEST_CASE(
    "when the cache has no free page, a session generates as many tokens as without starting steps "
    "early") {
  // The cache has pages for 256 tokens; another sequence uses two of the four pages.
  const auto tokens_until_full = [](Executor& executor) {
    Sequence other = executor.new_sequence();
    other.extend(100);
    Session session(executor, SamplingParams{.temperature = 0});
    session.feed(random_tokens(100, 1));
    CHECK(has(error_text(
                  [&] {
                    while (true) session.next();
                  },
                  Exit::Memory),
              "the KV cache is full"));
    return session.tokens();
  };
  const auto plain = small_executor({.sequences = 2, .cache_tokens = 256});
  AheadExecutor executor = ahead_executor({.sequences = 2, .cache_tokens = 256});
  CHECK(tokens_until_full(executor) == tokens_until_full(*plain));
  CHECK(executor.pages().free_pages() == executor.pages().size());
}

TEST_CASE("after a filter failed, the session continues") {
  struct Failing final : TokenFilter {
    std::span<const uint64_t> allowed() override { fail(Exit::Failed, "no token"); }
    void accept(int32_t) override {}
    bool finished() const override { return false; }
  };
  Pair pair;
  pair.both([&](Session& s) { s.feed(random_tokens(20, 1)); });
  pair.next(3);
  Failing failing;
  pair.both([&](Session& s) {
    CHECK(has(error_text([&] { s.next(&failing); }, Exit::Failed), "no token"));
  });
  pair.next(5);
}

}  // namespace skald::test
