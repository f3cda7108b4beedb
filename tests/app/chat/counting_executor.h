// Counts the rows that it is asked to compute; another executor computes them.
#pragma once

#include "tests/engine/wrapped_executor.h"

namespace skald::test {

class CountingExecutor final : public WrappedExecutor {
 public:
  using WrappedExecutor::WrappedExecutor;

  int64_t rows = 0;

  int64_t run(Step step) override {
    for (const SeqRows& part : step) rows += std::ssize(part.tokens);
    return WrappedExecutor::run(step);
  }
};

}  // namespace skald::test
