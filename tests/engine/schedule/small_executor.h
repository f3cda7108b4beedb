// A CPU executor of a one-layer model with a context of 200 tokens, for tests of sessions.
#pragma once

#include <memory>

#include "engine/cpu/executor.h"
#include "tests/engine/random_llama.h"

namespace skald::test {

struct SmallExecutor {
  int64_t rows = 16;
  int sequences = 1;
  int64_t cache_tokens = 0;  // 0: enough for all sequences
};

inline std::unique_ptr<Executor> small_executor(const SmallExecutor& small = {}) {
  RunOptions options;
  options.threads = 1;
  options.rows = small.rows;
  options.sequences = small.sequences;
  options.context = 200;
  options.cache_tokens = small.cache_tokens;
  return cpu::make_executor(random_llama({.type = DType::Q8_0, .layers = 1}), options);
}

}  // namespace skald::test
