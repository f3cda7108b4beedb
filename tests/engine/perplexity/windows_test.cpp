#include "engine/perplexity/windows.h"

#include <map>

#include "engine/cpu/executor.h"
#include "tests/catch.h"
#include "tests/engine/random_llama.h"

namespace skald::test {
namespace {

using Scores = std::map<std::pair<size_t, int64_t>, TokenScore>;

std::vector<std::vector<int32_t>> texts(int64_t vocab) {
  std::vector<std::vector<int32_t>> all;
  for (const size_t length : {40, 2, 9, 70, 31}) {
    std::vector<int32_t>& text = all.emplace_back();
    for (size_t i = 0; i < length; ++i) {
      text.push_back(
          static_cast<int32_t>((i * 7 + length * 13 + i * i) % static_cast<size_t>(vocab)));
    }
  }
  return all;
}

Scores scores_of(Executor& executor, const std::vector<std::vector<int32_t>>& all) {
  std::vector<TokenWindow> windows;
  windows.reserve(all.size());
  for (const auto& text : all) windows.push_back({text, static_cast<int64_t>(text.size()) / 2 + 1});
  windows[1].scored_from = 1;
  Scores scores;
  Executor* const executors[] = {&executor};
  const bool whole = run_windows(executors, windows, [&](std::span<const WindowRow> rows) {
    std::vector<int32_t> targets;
    for (const WindowRow& row : rows) targets.push_back(row.target);
    const std::vector<TokenScore> result = executor.score(targets);
    for (size_t i = 0; i < rows.size(); ++i) {
      if (rows[i].target < 0) continue;
      CHECK(rows[i].target == all[rows[i].window][static_cast<size_t>(rows[i].position)]);
      CHECK(scores.emplace(std::pair(rows[i].window, rows[i].position), result[i]).second);
    }
    return true;
  });
  CHECK(whole);
  return scores;
}

TEST_CASE(
    "a window's scores depend neither on the windows in the same step nor on the step's size") {
  const Model model = random_llama({});
  const auto all = texts(model.config.vocab);
  // The expected scores: each text by itself, one token per step.
  Scores expected;
  const auto alone = cpu::make_executor(model, {.rows = 1});
  for (size_t w = 0; w < all.size(); ++w) {
    Sequence sequence = alone->new_sequence();
    const int64_t size = static_cast<int64_t>(all[w].size());
    const int64_t from = w == 1 ? 1 : size / 2 + 1;
    for (int64_t position = 1; position < size; ++position) {
      const SeqRows row{&sequence, std::span(all[w]).subspan(static_cast<size_t>(position) - 1, 1),
                        Want::LastRow};
      alone->run({&row, 1});
      const int32_t target = all[w][static_cast<size_t>(position)];
      if (position >= from) expected[{w, position}] = score_row(alone->logits(0), target);
    }
  }
  for (const int64_t rows : {1, 3, 16, 64, 500}) {
    const auto executor =
        cpu::make_executor(model, {.sequences = 5, .rows = rows, .threads = rows == 3 ? 3 : 1});
    const Scores scores = scores_of(*executor, all);
    CAPTURE(rows);
    REQUIRE(scores.size() == expected.size());
    for (const auto& [key, score] : expected) {
      const TokenScore& other = scores.at(key);
      CHECK(other.logprob == score.logprob);  // bit for bit
      CHECK(other.entropy == score.entropy);
      CHECK(other.rank == score.rank);
      CHECK(other.top == score.top);
    }
    CHECK(executor->pages().free_pages() == executor->pages().size());
  }
}

TEST_CASE("run_windows stops when the callback asks for it, and frees all pages") {
  const Model model = random_llama({});
  const auto all = texts(model.config.vocab);
  const auto executor = cpu::make_executor(model, {.sequences = 5, .rows = 16});
  std::vector<TokenWindow> windows;
  windows.reserve(all.size());
  for (const auto& text : all) windows.push_back({text});
  Executor* const executors[] = {executor.get()};
  int calls = 0;
  CHECK(!run_windows(executors, windows, [&](auto) { return ++calls < 2; }));
  CHECK(calls == 2);
  CHECK(executor->pages().free_pages() == executor->pages().size());
}

TEST_CASE("a step has as many windows as its rows and the sequences allow") {
  const Model model = random_llama({});
  const auto all = texts(model.config.vocab);  // 39, 1, 8, 69 and 30 rows
  std::vector<TokenWindow> windows;
  windows.reserve(all.size());
  for (const auto& text : all) windows.push_back({text});
  const auto count = [&](int64_t rows, int sequences) {
    return windows_in_step(*cpu::make_executor(model, {.sequences = sequences, .rows = rows}),
                           windows);
  };
  CHECK(count(10, 5) == 1);  // the first window takes several steps
  CHECK(count(39, 5) == 1);
  CHECK(count(48, 5) == 3);
  CHECK(count(48, 2) == 2);
  CHECK(count(147, 5) == 5);
  // Sequences may share a cache that is given in tokens.
  RunOptions options = {.rows = 147};
  options.sequences = 5;
  options.cache_tokens = 1024;
  CHECK(windows_in_step(*cpu::make_executor(model, options), windows) == 5);
}

}  // namespace
}  // namespace skald::test
