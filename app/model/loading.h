// What a person sees while a model is read: nothing for half a second, then a bar on stderr, which
// is wiped away at the end. Only on a terminal that takes escape sequences.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "engine/memory/memory_plan.h"
#include "engine/program/model.h"

namespace skald {

class LoadingBar {
 public:
  static constexpr std::chrono::milliseconds kPatience{500};

  explicit LoadingBar(std::string label, std::chrono::milliseconds patience = kPatience);
  ~LoadingBar();
  LoadingBar(const LoadingBar&) = delete;
  LoadingBar& operator=(const LoadingBar&) = delete;

  void show(int64_t bytes, int64_t of);

 private:
  using Clock = std::chrono::steady_clock;

  std::string label_;
  bool wanted_, drawn_ = false;
  Clock::time_point next_;
};

// "model.gguf [#####     ]  50 %, 2.0 of 4.0 GB" in fewer than `columns`: narrow terminals get less
// of it.
std::string loading_text(std::string_view label, int64_t bytes, int64_t of, int columns);

// Makes weights that are not there yet (WeightFile::made()) with a bar of its own; until Ctrl-C,
// which is an Error.
Model make_weights(const Model& model, int threads);

// Reads weights that are not in memory yet, in the order of the file, which is faster than in that
// of the first step's threads; until Ctrl-C. Weights that would not stay in memory are left alone.
void read_weights(const Model& model, const MemoryPlan& plan, LoadingBar& bar);

}  // namespace skald
