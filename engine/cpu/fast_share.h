// Distributes work on rows and ranges over the threads if there is enough of it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "engine/cpu/thread_pool.h"

namespace skald::cpu {

// In floats. For less work, waking the other threads costs more than it saves.
inline constexpr int64_t kSmallWork = 16 * 1024;

// Calls fn(row) for each row of `cols` floats.
template <class Fn>
void share_rows(ThreadPool& pool, int64_t rows, int64_t cols, const Fn& fn) {
  if (rows * cols <= kSmallWork) {
    for (int64_t r = 0; r < rows; ++r) fn(r);
    return;
  }
  pool.run([&](int thread, int threads) {
    for (int64_t r = rows * thread / threads; r < rows * (thread + 1) / threads; ++r) fn(r);
  });
}

// Calls fn(from, count) for ranges of a long vector; each range starts at a cache line.
template <class Fn>
void share_range(ThreadPool& pool, int64_t count, const Fn& fn) {
  if (count <= kSmallWork) return fn(0, count);
  const int64_t lines = (count + 15) / 16;
  pool.run([&](int thread, int threads) {
    const int64_t from = lines * thread / threads * 16;
    const int64_t to = std::min(lines * (thread + 1) / threads * 16, count);
    if (from < to) fn(from, to - from);
  });
}

}  // namespace skald::cpu
