#include "engine/memory/kv_pages.h"

#include <vector>

#include "tests/catch.h"
#include "tests/error_text.h"

namespace skald {
namespace {

using test::error_text;
using test::has;

std::vector<int32_t> pages_of(const Sequence& sequence) {
  return {sequence.pages().begin(), sequence.pages().end()};
}

TEST_CASE("a sequence takes a page for each 64 tokens and frees its pages") {
  PagePool pool(4);
  {
    Sequence s(pool);
    CHECK(!s.extend(1).page);
    CHECK(s.pages().size() == 1);
    s.extend(63);
    CHECK(s.pages().size() == 1);
    s.extend(1);
    CHECK(s.pages().size() == 2);
    CHECK(s.length() == 65);
    s.extend(0);
    CHECK(s.length() == 65);
    CHECK(pool.free_pages() == 2);
    s.truncate(64);
    CHECK(pool.free_pages() == 3);
    s.truncate(0);
    CHECK(pool.free_pages() == 4);
    s.extend(256);
    CHECK(pool.free_pages() == 0);
  }
  CHECK(pool.free_pages() == 4);
}

TEST_CASE("an empty pool is an error that changes nothing") {
  PagePool pool(2);
  Sequence s(pool);
  s.extend(70);
  const auto before = pages_of(s);
  const std::string message = error_text([&] { s.extend(60); }, Exit::Memory);
  CHECK(has(message, "0 of 2 pages of 64 tokens are free, 1 are needed"));
  CHECK(s.length() == 70);
  CHECK(pages_of(s) == before);
  s.extend(58);
  CHECK(s.length() == 128);
  CHECK(has(error_text([&] { pool.take(); }, Exit::Memory), "all 2 pages"));
}

TEST_CASE("a fork shares pages until one side writes") {
  PagePool pool(4);
  Sequence a(pool);
  a.extend(100);
  Sequence b = a.fork();
  CHECK(pages_of(a) == pages_of(b));
  CHECK(pool.free_pages() == 2);

  const auto copy = b.extend(1).page;
  REQUIRE(copy);
  CHECK(copy->from == a.pages()[1]);
  CHECK(copy->to == b.pages()[1]);
  CHECK(a.pages()[0] == b.pages()[0]);
  CHECK(a.pages()[1] != b.pages()[1]);
  CHECK(pool.free_pages() == 1);
  CHECK(!a.extend(1).page);  // no other sequence has its page any more
  CHECK(!b.extend(1).page);
}

TEST_CASE("a fork's full pages are never copied") {
  PagePool pool(3);
  Sequence a(pool);
  a.extend(64);
  Sequence b = a.fork();
  CHECK(!b.extend(10).page);
  CHECK(!a.extend(10).page);
  CHECK(a.pages()[0] == b.pages()[0]);
  CHECK(a.pages()[1] != b.pages()[1]);
}

TEST_CASE("a copy on write without a free page is an error that changes nothing") {
  PagePool pool(1);
  Sequence a(pool);
  a.extend(10);
  Sequence b = a.fork();
  CHECK(error_text([&] { b.extend(1); }, Exit::Memory) != "");
  CHECK(b.length() == 10);
  CHECK(pages_of(a) == pages_of(b));
  a.truncate(0);
  CHECK(!b.extend(1).page);
}

TEST_CASE("a page is free when the last fork has released it") {
  PagePool pool(2);
  Sequence a(pool);
  a.extend(65);
  Sequence b = a.fork();
  Sequence c = b.fork();
  a.truncate(0);
  b.truncate(64);
  CHECK(pool.free_pages() == 0);
  c.truncate(10);
  CHECK(pool.free_pages() == 1);
  b.truncate(0);
  CHECK(pool.free_pages() == 1);
  c.truncate(0);
  CHECK(pool.free_pages() == 2);
}

TEST_CASE("a fork truncated inside a shared page copies the page before it writes") {
  PagePool pool(4);
  Sequence a(pool);
  a.extend(100);
  Sequence b = a.fork();
  b.truncate(30);
  const auto copy = b.extend(5).page;
  REQUIRE(copy);
  CHECK(copy->from == a.pages()[0]);
  CHECK(b.length() == 35);
}

TEST_CASE("moving a sequence keeps the count of free pages right") {
  PagePool pool(4);
  Sequence a(pool);
  a.extend(70);
  Sequence b = std::move(a);
  CHECK(a.length() == 0);  // NOLINT(bugprone-use-after-move): a moved sequence is empty
  CHECK(b.length() == 70);
  CHECK(pool.free_pages() == 2);
  Sequence c(pool);
  c.extend(10);
  c = std::move(b);
  CHECK(c.length() == 70);
  b.truncate(0);  // NOLINT(bugprone-use-after-move)
  CHECK(pool.free_pages() == 2);
}

TEST_CASE("missing_pages says how many pages an extension takes") {
  PagePool pool(8);
  Sequence sequence(pool);
  const auto takes = [&](int64_t tokens) {
    const int64_t missing = sequence.missing_pages(tokens);
    const int64_t before = pool.free_pages();
    sequence.extend(tokens);
    CHECK(before - pool.free_pages() == missing);
    return missing;
  };
  CHECK(takes(0) == 0);
  CHECK(takes(63) == 1);
  CHECK(takes(1) == 0);
  CHECK(takes(1) == 1);
  const Sequence fork = sequence.fork();
  CHECK(takes(1) == 1);  // a copy, because the fork holds the partly filled page too
  CHECK(takes(1) == 0);
  CHECK(takes(62) == 1);
}

}  // namespace
TEST_CASE("a sequence takes a slot for its state, and its fork another one when it writes") {
  PagePool pool(8, 2);
  CHECK(pool.has_states());
  Sequence a(pool);
  CHECK(a.state() == -1);
  CHECK(!a.extend(10).state);  // a new slot has no contents to copy
  const int32_t slot = a.state();
  CHECK(slot >= 0);
  Sequence b = a.fork();
  CHECK(b.state() == slot);
  CHECK(pool.states().free() == 1);
  const auto copy = b.extend(1).state;
  REQUIRE(copy);
  CHECK(copy->from == slot);
  CHECK(copy->to == b.state());
  CHECK(b.state() != slot);
  CHECK(!a.extend(1).state);  // alone again
  Sequence c(pool);
  CHECK(has(error_text([&] { c.extend(1); }, Exit::Memory), "states of all 2 sequences"));
  CHECK(c.length() == 0);
  b.truncate(0);
  CHECK(!c.extend(1).state);
}

TEST_CASE("a sequence with a state is truncated to its last checkpoint, or to nothing") {
  PagePool pool(8, 3);
  Sequence s(pool);
  s.extend(100);
  s.checkpoint();
  const int32_t first = s.state();
  CHECK(s.extend(1).state->from == first);
  s.extend(49);
  s.checkpoint();
  s.extend(30);
  CHECK(s.length() == 180);
  CHECK(s.kept_length(180) == 180);
  CHECK(s.kept_length(179) == 150);
  CHECK(s.kept_length(149) == 100);
  CHECK(s.kept_length(99) == 0);
  CHECK(s.state_at(100) == first);
  CHECK(s.state_at(120) == -1);

  s.truncate(160);
  CHECK(s.length() == 150);
  s.truncate(150);  // where it is
  CHECK(s.length() == 150);
  s.truncate(149);
  CHECK(s.length() == 100);
  CHECK(s.state() == first);
  CHECK(std::ssize(s.pages()) == 2);
  CHECK(s.extend(1).state->from == first);  // the checkpoint stays as it is
  s.truncate(100);
  CHECK(s.length() == 100);
  s.truncate(99);
  CHECK(s.length() == 0);
  CHECK(s.state() == -1);
  CHECK(pool.states().free() == 3);
}

TEST_CASE("a checkpoint replaces the oldest one, and never takes the slot that a sequence needs") {
  PagePool pool(8, 3);
  Sequence s(pool);
  for (int i = 0; i < 5; ++i) {
    s.extend(10);
    s.checkpoint();
  }
  s.extend(10);
  CHECK(s.length() == 60);
  CHECK(s.kept_length(59) == 50);
  CHECK(s.kept_length(49) == 40);
  CHECK(s.kept_length(39) == 0);

  // Other sequences take the slot that the last checkpoint counted on.
  s.truncate(40);
  CHECK(s.length() == 40);
  Sequence other(pool), third(pool);
  other.extend(1), third.extend(1);
  CHECK(pool.states().free() == 0);
  CHECK(!s.extend(1).state);  // writes in the place of the checkpoint
  CHECK(s.kept_length(40) == 0);
  s.checkpoint();  // finds no slot
  s.extend(1);
  CHECK(s.kept_length(41) == 0);
}

TEST_CASE("an extension that is taken back leaves pages, state and checkpoints as they were") {
  PagePool pool(8, 2);
  Sequence s(pool);
  s.extend(64);
  s.checkpoint();
  s.extend(10);
  const int32_t slot = s.state();
  s.undo_extend(70, s.extend(70));
  CHECK(s.length() == 74);
  CHECK(s.state() == slot);
  CHECK(std::ssize(s.pages()) == 2);
  CHECK(s.kept_length(73) == 64);
}

TEST_CASE("an extension that is taken back shares what it had replaced again") {
  PagePool pool(8, 4);
  Sequence s(pool);
  s.extend(10);
  Sequence fork = s.fork();
  const int32_t page = s.pages()[0], slot = s.state();
  const Sequence::Copies copies = fork.extend(3);
  REQUIRE(copies.page);
  REQUIRE(copies.state);
  fork.undo_extend(3, copies);
  CHECK(fork.length() == 10);
  CHECK(fork.pages()[0] == page);
  CHECK(fork.state() == slot);
  CHECK(fork.extend(3).page);  // the page is shared as before
  fork.truncate(0);
  s.truncate(0);
  CHECK(pool.free_pages() == 8);
  CHECK(pool.states().free() == 4);
}

TEST_CASE("a moved sequence takes its state and checkpoints along") {
  PagePool pool(8, 3);
  Sequence a(pool);
  a.extend(10);
  a.checkpoint();
  a.extend(5);
  Sequence b = std::move(a);
  CHECK(a.state() == -1);  // NOLINT(bugprone-use-after-move)
  CHECK(b.kept_length(14) == 10);
  Sequence c(pool);
  c.extend(1);
  c = std::move(b);
  CHECK(c.length() == 15);
  b.truncate(0);  // NOLINT(bugprone-use-after-move)
  c.truncate(0);
  CHECK(pool.states().free() == 3);
}

}  // namespace skald
