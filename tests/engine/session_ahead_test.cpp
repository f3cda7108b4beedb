// A session on an executor that runs ahead of its picks does what one on any other does.
#include <algorithm>
#include <functional>

#include "engine/cpu/executor.h"
#include "engine/session.h"
#include "tests/ahead_executor.h"
#include "tests/catch.h"
#include "tests/engine/random_llama.h"
#include "tests/error_text.h"

namespace skald::test {
namespace {

using Tokens = std::vector<int32_t>;

std::unique_ptr<Executor> small_executor(int sequences = 1, int64_t cache_tokens = 0) {
  RunOptions options;
  options.threads = 1;
  options.rows = 16;
  options.sequences = sequences;
  options.context = 200;
  options.cache_tokens = cache_tokens;
  return cpu::make_executor(random_llama({.type = DType::Q8_0, .layers = 1}), options);
}

AheadExecutor ahead_executor(int sequences = 1, int64_t cache_tokens = 0) {
  return AheadExecutor(small_executor(sequences, cache_tokens));
}

bool same(const Picked& a, const Picked& b) {
  return a.token == b.token && a.logprob == b.logprob && a.top == b.top;
}

// Allows every token but those that the last one's number rules out.
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

std::vector<std::byte> page(const Session& session, const Executor& executor, int64_t index) {
  std::vector<std::byte> bytes(static_cast<size_t>(executor.page_bytes()));
  session.read_page(index, bytes);
  return bytes;
}

// Two sessions that get the same of everything.
struct Pair {
  std::unique_ptr<Executor> plain_executor = small_executor();
  AheadExecutor ahead_executor{small_executor()};
  Session plain{*plain_executor, {}}, ahead{ahead_executor, {}};

  void both(const std::function<void(Session&)>& act) {
    act(plain);
    act(ahead);
    CHECK(plain.tokens() == ahead.tokens());
    CHECK(plain.computed() == ahead.computed());
  }
  void next(int count, TokenFilter* filter_a = nullptr, TokenFilter* filter_b = nullptr) {
    for (int i = 0; i < count; ++i) {
      const Picked expected = plain.next(filter_a), picked = ahead.next(filter_b);
      REQUIRE(same(picked, expected));
      if (filter_a) filter_a->accept(expected.token), filter_b->accept(picked.token);
    }
    CHECK(plain.tokens() == ahead.tokens());
  }
};

}  // namespace

TEST_CASE("a session that runs ahead picks the same tokens, whatever the settings") {
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

TEST_CASE("a filter is asked after the token before, also by a session that runs ahead") {
  Pair pair;
  Sieve a, b;
  pair.both([&](Session& s) { s.feed(random_tokens(20, 1)); });
  pair.next(60, &a, &b);
}

TEST_CASE("whatever happens between two picks, running ahead changes nothing") {
  Pair pair;
  uint64_t dice = 1;
  const auto roll = [&](uint64_t sides) {
    dice = dice * 6364136223846793005u + 1442695040888963407u;
    return (dice >> 33) % sides;
  };
  pair.both([&](Session& s) { s.feed(random_tokens(30, 1)); });
  for (int i = 0; i < 300; ++i) {
    CAPTURE(i);
    const auto length = static_cast<int64_t>(pair.plain.tokens().size());
    switch (roll(8)) {
      case 0: {
        const auto keep = static_cast<int64_t>(1 + roll(static_cast<uint64_t>(length)));
        pair.both([&](Session& s) { s.truncate(keep); });
        break;
      }
      case 1: {
        if (length > 150) break;
        const Tokens more = random_tokens(static_cast<int64_t>(roll(30)), roll(100));
        pair.both([&](Session& s) { s.feed(more); });
        break;
      }
      case 2: {
        SamplingParams params;
        params.temperature = static_cast<float>(roll(3)) / 2;
        params.repeat_penalty = roll(2) ? 1.0f : 1.2f;
        pair.both([&](Session& s) { s.set_sampling(params, roll(1)); });
        break;
      }
      case 3: {
        if (pair.plain.computed() == 0) break;
        const int64_t index = static_cast<int64_t>(roll(100)) % pages_for(pair.plain.computed());
        if (index + 1 == pages_for(pair.plain.computed())) break;  // the rest of it is anything
        CHECK(page(pair.plain, *pair.plain_executor, index) ==
              page(pair.ahead, pair.ahead_executor, index));
        break;
      }
      case 4:
        pair.ahead_executor.refuses = !pair.ahead_executor.refuses;
        break;
      default:
        if (!pair.plain.full()) pair.next(1);
    }
  }
  CHECK(pair.ahead_executor.ahead > 50);
}

TEST_CASE("no step is begun beyond the context, nor after the last token that is wanted") {
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

TEST_CASE("sessions of an executor that runs ahead take turns without mixing") {
  const auto text_of = [](Executor& executor, uint64_t request) {
    SamplingParams params;
    params.seed = 7;
    Session session(executor, params, request);
    session.feed(random_tokens(20 + static_cast<int64_t>(request), request));
    return session;
  };
  const auto plain = small_executor(3);
  AheadExecutor executor = ahead_executor(3);
  std::vector<Tokens> expected;
  std::vector<Session> sessions;  // which move
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

TEST_CASE("where the cache has no free page the text goes on as far as without running ahead") {
  // Pages for 256 tokens, 64 of which another text holds.
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
              "the cache is full"));
    return session.tokens();
  };
  const auto plain = small_executor(2, 256);
  AheadExecutor executor = ahead_executor(2, 256);
  CHECK(tokens_until_full(executor) == tokens_until_full(*plain));
  CHECK(executor.pages().free_pages() == executor.pages().size());
}

TEST_CASE("a filter that fails leaves a session that goes on") {
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
