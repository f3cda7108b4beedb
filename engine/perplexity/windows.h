// Runs windows of text on an executor, many in a step, for perplexity and scoring. A window's rows
// see its own tokens alone; a window that is longer than a step takes several. Which windows share
// a step changes no result.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "engine/step/backend.h"

namespace skald {

// Its tokens from `scored_from` on (at least 1) are targets: each is predicted from all before it.
// The last token is a target only, so that a window takes tokens.size() - 1 rows. `before` is what
// comes before the first token and was computed already; the window works on a fork of it.
struct TokenWindow {
  std::span<const int32_t> tokens;
  int64_t scored_from = 1;
  const Sequence* before = nullptr;

  int64_t rows() const { return static_cast<int64_t>(tokens.size()) - 1; }
};

// A wanted row of a step.
struct WindowRow {
  size_t window = 0;
  int64_t position = 0;  // of the target in the window
  int32_t target = -1;   // -1: before scored_from
};

// Called after each step that has targets: Executor::score(), compare() or logits() may be asked
// for the rows. Windows come in order, and positions in a window. False stops.
using OnRows = std::function<bool(std::span<const WindowRow> rows)>;

// How many of the windows, from the first, fit into one step; at least 1.
size_t windows_in_step(const Executor& executor, std::span<const TokenWindow> windows);

// The texts' sequences, none of whose rows is wanted, for TokenWindow::before.
std::vector<Sequence> run_prefixes(Executor& executor,
                                   std::span<const std::span<const int32_t>> texts);

// Every executor runs every step; of several, no window has a `before`. False when `on_rows`
// stopped it.
bool run_windows(std::span<Executor* const> executors, std::span<const TokenWindow> windows,
                 const OnRows& on_rows);

}  // namespace skald
