// Runs windows of tokens on an executor, several in a step, for perplexity and scoring. The rows of
// a window attend only to its own tokens. A window that is longer than a step takes several steps.
// Results do not depend on which windows share a step.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "engine/step/backend.h"

namespace skald {

// The tokens from index `scored_from` (at least 1) on are targets: each is predicted from all
// tokens before it. The last token is only a target, so a window takes tokens.size() - 1 rows.
// `before` holds tokens before the first one that are already computed; the window works on a fork
// of it.
struct TokenWindow {
  std::span<const int32_t> tokens;
  int64_t scored_from = 1;
  const Sequence* before = nullptr;

  int64_t rows() const { return static_cast<int64_t>(tokens.size()) - 1; }
};

// A row of a step whose logits were computed.
struct WindowRow {
  size_t window = 0;
  int64_t position = 0;  // index of the target token in the window
  int32_t target = -1;   // -1: the target is before scored_from
};

// Called after each step with targets; it may ask the executors for score(), compare() or logits()
// of the rows. Windows come in order, and so do positions inside a window. Return false to stop.
using OnRows = std::function<bool(std::span<const WindowRow> rows)>;

// The number of windows, from the first on, that fit into one step; at least 1.
size_t windows_in_step(const Executor& executor, std::span<const TokenWindow> windows);

// Computes the texts without any logits; returns their sequences for TokenWindow::before.
std::vector<Sequence> run_prefixes(Executor& executor,
                                   std::span<const std::span<const int32_t>> texts);

// Every executor runs every step. With several executors, no window may have a `before`. Returns
// false if `on_rows` stopped the run.
bool run_windows(std::span<Executor* const> executors, std::span<const TokenWindow> windows,
                 const OnRows& on_rows);

}  // namespace skald
