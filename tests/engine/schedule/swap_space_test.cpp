#include "engine/schedule/swap_space.h"

#include "tests/catch.h"
#include "tests/engine/schedule/small_executor.h"
#include "tests/engine/schedule/timed_executor.h"

namespace skald::test {
namespace {

constexpr int64_t kLength = 150;  // three pages

struct Space {
  explicit Space(int64_t pages, std::function<bool(int64_t)> may_take = {})
      : executor(small_executor({.rows = 200, .sequences = 6})),
        clock(executor.clock()),
        space(executor, {pages * executor.page_bytes(), std::move(may_take)}, clock) {}

  Sequence computed(uint64_t seed, int64_t length = kLength) {
    Sequence sequence = executor.new_sequence();
    const std::vector<int32_t> tokens = random_tokens(length, seed);
    const SeqRows rows{&sequence, tokens, Want::Nothing};
    executor.run({&rows, 1});
    return sequence;
  }

  std::vector<float> next_logits(Sequence& sequence) {
    const int32_t token = 7;
    const SeqRows rows{&sequence, {&token, 1}, Want::LastRow};
    executor.run({&rows, 1});
    const auto logits = executor.logits(0);
    return {logits.begin(), logits.end()};
  }

  TimedExecutor executor;
  SecondsClock clock;
  SwapSpace space;
};

TEST_CASE("a sequence goes on from its swapped pages as if it had stayed in the cache") {
  Space s(10);
  Sequence sequence = s.computed(1);
  Sequence same = sequence.fork();
  const std::vector<float> expected = s.next_logits(same);
  for (const int64_t first : {0, 1, 2}) {
    CAPTURE(first);
    const auto saved = s.space.save(sequence, first);
    REQUIRE(saved);
    CHECK(saved->first_token() == 64 * first);
    CHECK(saved->length() == kLength);
    CHECK(s.space.bytes_used() == (3 - first) * s.executor.page_bytes());
    // Of the last page, a fork has only the first tokens.
    for (const int64_t kept : {64 * first, int64_t{140}}) {
      Sequence back = sequence.fork();
      back.truncate(kept);
      REQUIRE(s.space.restore(*saved, back));
      CHECK(back.length() == kLength);
      CHECK(s.next_logits(back) == expected);
    }
  }
  CHECK(s.space.bytes_used() == 0);
  CHECK(s.executor.pages_out == 3 + 2 + 1);
  CHECK(!s.space.save(sequence, 3));  // there is nothing to save
}

TEST_CASE("the host's memory has a bound, and memory that became free is used again") {
  Space s(7);
  const Sequence sequence = s.computed(1);
  {
    const auto first = s.space.save(sequence, 0), second = s.space.save(sequence, 0);
    CHECK(first);
    CHECK(second);
    CHECK(!s.space.save(sequence, 0));
    CHECK(s.space.save(sequence, 2));
  }
  for (int i = 0; i < 10; ++i) CHECK(s.space.save(sequence, 0));
  CHECK(s.executor.host_bytes <= 7 * s.executor.page_bytes());
  CHECK(s.space.bytes_taken() == s.executor.host_bytes);
  CHECK(s.space.bytes_used() == 0);
  for (const int64_t pages : {0, 2}) {
    Space less(pages);
    const Sequence other = less.computed(1);
    CHECK(!less.space.save(other, 0));
    CHECK(less.executor.host_bytes == 0);
  }
}

TEST_CASE("where the host has no memory left, nothing is swapped and nothing fails") {
  int64_t left = 0;
  Space asked(10, [&](int64_t bytes) { return bytes <= left; });
  const Sequence sequence = asked.computed(1);
  CHECK(!asked.space.save(sequence, 0));
  CHECK(asked.executor.host_bytes == 0);
  left = 1 << 30;
  CHECK(asked.space.save(sequence, 0));

  Space refused(10);
  const Sequence other = refused.computed(1);
  refused.executor.most_host_bytes = 0;
  CHECK(!refused.space.save(other, 0));
  CHECK(refused.space.bytes_taken() == 0);
  refused.executor.most_host_bytes = 1 << 30;
  CHECK(refused.space.save(other, 0));
}

TEST_CASE("a sequence that cannot be restored keeps what it had, in whole pages") {
  Space s(10);
  Sequence sequence = s.computed(1);
  const auto saved = s.space.save(sequence, 0);
  REQUIRE(saved);
  sequence.truncate(100);
  std::vector<Sequence> others;
  for (uint64_t i = 0; s.executor.pages().free_pages() > 0; ++i) {
    others.push_back(
        s.computed(2 + i, std::min<int64_t>(200, 64 * s.executor.pages().free_pages())));
  }
  CHECK(!s.space.restore(*saved, sequence));  // no page is free
  CHECK(sequence.length() == 100);
  others.clear();
  s.executor.writes = false;
  CHECK(!s.space.restore(*saved, sequence));
  CHECK(sequence.length() == 64);
  s.executor.writes = true;
  CHECK(s.space.restore(*saved, sequence));
  CHECK(sequence.length() == kLength);
}

}  // namespace
}  // namespace skald::test
