// Shows progress while a model is read: after half a second, a bar on stderr, which is erased at
// the end. Shown only on a terminal that understands escape sequences.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "app/terminal/progress.h"
#include "engine/memory/memory_plan.h"
#include "engine/program/model.h"

namespace skald {

class LoadingBar {
 public:
  static constexpr std::chrono::milliseconds kPatience{500};

  explicit LoadingBar(std::string label, std::chrono::milliseconds patience = kPatience)
      : label_(std::move(label)), progress_(progress_style(), patience) {}

  void show(int64_t bytes, int64_t of);

 private:
  std::string label_;
  Progress progress_;
};

// Returns "model.gguf [#####     ]  50 %, 2.0 of 4.0 GB", shortened to fewer than `columns`
// characters.
std::string loading_text(std::string_view label, int64_t bytes, int64_t of, int columns);

// Makes the weights that --type asks for, or that the files hold in another layout
// (WeightFile::made()), and shows a bar of its own.
// Ctrl-C throws Error(Exit::Interrupted).
Model make_weights(const Model& model, int threads);

// Reads mapped weights into memory in file order, which is faster than the page faults of the first
// step. Does nothing if the weights seem to be in memory already, or would not stay there. Returns
// early on Ctrl-C.
void read_weights(const Model& model, const MemoryPlan& plan, LoadingBar& bar);

}  // namespace skald
