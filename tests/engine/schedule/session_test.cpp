#include "engine/schedule/session.h"

#include <algorithm>

#include "engine/cpu/executor.h"
#include "tests/catch.h"
#include "tests/engine/random_llama.h"
#include "tests/engine/schedule/small_executor.h"
#include "tests/error_text.h"

namespace skald::test {
namespace {

using Tokens = std::vector<int32_t>;

SamplingParams seeded(uint64_t seed) {
  SamplingParams params;
  params.seed = seed;
  return params;
}

Tokens generate(Session& session, int count) {
  Tokens tokens;
  for (int i = 0; i < count; ++i) tokens.push_back(session.next().token);
  return tokens;
}

TEST_CASE("the same seed and request draw the same tokens, however many rows a step takes") {
  const Tokens prompt = random_tokens(50, 1);
  const auto generated = [&](int64_t rows, uint64_t seed, uint64_t request) {
    const auto executor = small_executor({.rows = rows});
    Session session(*executor, seeded(seed), request);
    session.feed(prompt);
    return generate(session, 20);
  };
  const Tokens expected = generated(16, 1, 0);
  CHECK(generated(1, 1, 0) == expected);
  CHECK(generated(50, 1, 0) == expected);
  CHECK(generated(200, 1, 0) == expected);
  CHECK(generated(16, 2, 0) != expected);
  CHECK(generated(16, 1, 1) != expected);
}

TEST_CASE("truncating a session and feeding again gives the same tokens") {
  const auto executor = small_executor();
  const Tokens prompt = random_tokens(30, 1);
  Session session(*executor, seeded(3));
  session.feed(prompt);
  const Tokens expected = generate(session, 40);
  for (const int64_t keep : {69, 64, 40, 31, 30, 29, 1, 0}) {
    CAPTURE(keep);
    session.truncate(keep);
    CHECK(session.tokens().size() == static_cast<size_t>(keep));
    if (keep < 30) session.feed(std::span(prompt).subspan(static_cast<size_t>(keep)));
    const int64_t again = std::max<int64_t>(keep, 30);
    CHECK(generate(session, static_cast<int>(70 - again)) ==
          Tokens(expected.begin() + (again - 30), expected.end()));
  }
}

TEST_CASE("feeding in parts equals feeding at once") {
  const auto executor = small_executor({.sequences = 2});
  const Tokens prompt = random_tokens(45, 1);
  Session at_once(*executor, seeded(1)), in_parts(*executor, seeded(1));
  at_once.feed(prompt);
  in_parts.feed(std::span(prompt).first(10));
  in_parts.feed({});
  in_parts.feed(std::span(prompt).subspan(10));
  CHECK(generate(at_once, 10) == generate(in_parts, 10));
}

TEST_CASE("a prompt can be computed part by part") {
  const auto executor = small_executor({.sequences = 2});
  const Tokens prompt = random_tokens(40, 1);
  Session whole(*executor, seeded(1)), parts(*executor, seeded(1));
  whole.feed(prompt);
  parts.feed(prompt);
  CHECK(parts.compute_part());
  CHECK(parts.compute_part());
  CHECK(!parts.compute_part());
  CHECK(parts.tokens() == prompt);
  CHECK(generate(whole, 5) == generate(parts, 5));
  CHECK(!parts.compute_part());
}

TEST_CASE("a session is full at the context's length, and a further token is an error") {
  const auto executor = small_executor();
  Session session(*executor, seeded(1));
  session.feed(random_tokens(190, 1));
  while (!session.full()) session.next();
  CHECK(session.tokens().size() == 200);
  session.next();  // computes the last position; its token has no position any more
  CHECK(has(error_text([&] { session.next(); }, Exit::Failed), "the context holds 200"));
}

TEST_CASE("sessions of one executor take turns without mixing") {
  const auto executor = small_executor({.sequences = 3});
  const auto start = [&](uint64_t request) {
    Session session(*executor, seeded(7), request);
    session.feed(random_tokens(20 + static_cast<int64_t>(request), request));
    return session;
  };
  Tokens alone[3];
  for (uint64_t r = 0; r < 3; ++r) {
    Session session = start(r);
    alone[r] = generate(session, 15);
  }
  std::vector<Session> sessions;
  for (uint64_t r = 0; r < 3; ++r) sessions.push_back(start(r));
  Tokens mixed[3];
  for (int i = 0; i < 15; ++i) {
    for (size_t r = 0; r < 3; ++r) mixed[r].push_back(sessions[r].next().token);
  }
  for (int r = 0; r < 3; ++r) CHECK(mixed[r] == alone[r]);
}

// Allows only the token after the last accepted one.
class Next final : public TokenFilter {
 public:
  std::span<const uint64_t> allowed() override {
    bits_ = uint64_t{1} << last_ << 1;
    return {&bits_, 1};
  }
  void accept(int32_t token) override { last_ = token; }
  bool finished() const override { return false; }

 private:
  int32_t last_ = 4;
  uint64_t bits_ = 0;
};

TEST_CASE("a session picks the token that its filter allows") {
  const auto executor = small_executor();
  Session session(*executor, seeded(1));
  session.feed(random_tokens(20, 1));
  Next filter;
  for (int32_t expected = 5; expected < 10; ++expected) {
    const int32_t token = session.next(&filter).token;
    CHECK(token == expected);
    filter.accept(token);
  }
}

// The bytes of all pages of a session's cache.
std::vector<std::vector<std::byte>> pages_of(const Session& session, const Executor& executor) {
  std::vector<std::vector<std::byte>> pages;
  for (int64_t i = 0; i < pages_for(session.computed()); ++i) {
    pages.emplace_back(static_cast<size_t>(executor.page_bytes()));
    session.read_page(i, pages.back());
  }
  return pages;
}

TEST_CASE("a session restored from pages continues like the session that computed them") {
  const Tokens prompt = random_tokens(150, 1);
  const auto executor = small_executor();
  Session first(*executor, seeded(5));
  first.feed(prompt);
  const Tokens expected = generate(first, 20);
  CHECK(first.computed() == 169);
  const auto pages = pages_of(first, *executor);
  CHECK(pages.size() == 3);
  // Restores several beginnings of the sequence; some end inside a page.
  for (const int64_t length : {1, 63, 64, 65, 128, 149}) {
    CAPTURE(length);
    const auto other = small_executor();
    CHECK(other->page_format() == executor->page_format());
    Session session(*other, seeded(5));
    const auto part = std::span(prompt).first(static_cast<size_t>(length));
    session.restore(part, [&](int64_t i, std::span<std::byte> bytes) {
      std::ranges::copy(pages[static_cast<size_t>(i)], bytes.begin());
    });
    CHECK(session.computed() == length);
    CHECK(session.tokens() == Tokens(part.begin(), part.end()));
    session.feed(std::span(prompt).subspan(static_cast<size_t>(length)));
    CHECK(generate(session, 20) == expected);
  }
}

TEST_CASE("a session restored from other pages gives other tokens, so the pages are really used") {
  const Tokens prompt = random_tokens(100, 1);
  const auto executor = small_executor();
  const auto tokens = [&](std::byte fill) {
    Session session(*executor, seeded(5));
    session.restore(std::span(prompt).first(99),
                    [&](int64_t, std::span<std::byte> bytes) { std::ranges::fill(bytes, fill); });
    session.feed(std::span(prompt).last(1));
    return generate(session, 20);
  };
  CHECK(tokens(std::byte{0}) != tokens(std::byte{0x31}));
}

TEST_CASE("a failed restore leaves an empty session and takes no pages") {
  const auto executor = small_executor();
  const int64_t free = executor->pages().free_pages();
  Session session(*executor, seeded(1));
  const auto broken = [](int64_t index, std::span<std::byte>) {
    if (index == 1) fail(Exit::Failed, "broken page");
  };
  CHECK(has(error_text([&] { session.restore(random_tokens(100, 1), broken); }, Exit::Failed),
            "broken page"));
  CHECK(executor->pages().free_pages() == free);
  CHECK(session.tokens().empty());
  session.feed(random_tokens(5, 1));
  CHECK(generate(session, 3).size() == 3);
}

TEST_CASE("the format of a page depends on precision and kernel set") {
  const Model model = random_llama({.layers = 1});
  RunOptions options;
  options.threads = 1;
  const auto fast = cpu::make_executor(model, options);
  const auto reference = cpu::make_executor(model, options, cpu::KernelSet::Reference);
  options.exact = true;
  const auto exact = cpu::make_executor(model, options);
  CHECK(fast->page_format() != exact->page_format());
  CHECK(fast->page_format() != reference->page_format());
  CHECK(exact->page_bytes() == 2 * fast->page_bytes());
}

}  // namespace
}  // namespace skald::test
