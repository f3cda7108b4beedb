#include "engine/step/exchange.h"

#include <algorithm>

#include "engine/base/error.h"

namespace skald {

void put_columns(std::span<const float> columns, std::span<const int64_t> borders, size_t rank,
                 std::span<float> out) {
  const int64_t all = borders.back(), rows = std::ssize(out) / all;
  const int64_t first = borders[rank], count = borders[rank + 1] - first;
  for (int64_t row = 0; row < rows; ++row) {
    std::copy_n(columns.data() + row * count, count, out.data() + row * all + first);
  }
}

void ThreadExchange::meet() {
  std::unique_lock lock(mutex_);
  const int64_t meeting = meetings_;
  if (++arrived_ == parts_.size()) {
    arrived_ = 0;
    ++meetings_;
    arrival_.notify_all();
  }
  arrival_.wait(lock, [&] { return meetings_ != meeting || aborted_; });
  if (meetings_ == meeting) fail(Exit::Failed, "another rank of the model has failed");
}

void ThreadExchange::all_reduce(int rank, std::span<float> x) {
  const size_t self = static_cast<size_t>(rank), ranks = parts_.size();
  parts_[self] = x;
  meet();
  // Each rank adds up a range of columns and writes the sums to all ranks' buffers.
  const size_t first = x.size() * self / ranks, end = x.size() * (self + 1) / ranks;
  for (size_t i = first; i < end; ++i) {
    float sum = parts_[0][i];
    for (size_t r = 1; r < ranks; ++r) sum += parts_[r][i];
    for (const std::span<float>& part : parts_) part[i] = sum;
  }
  meet();
}

void ThreadExchange::all_gather(int rank, std::span<float> columns,
                                std::span<const int64_t> borders, std::span<float> out) {
  parts_[static_cast<size_t>(rank)] = columns;
  meet();
  for (size_t r = 0; r < parts_.size(); ++r) put_columns(parts_[r], borders, r, out);
  meet();
}

void ThreadExchange::abort() noexcept {
  const std::lock_guard lock(mutex_);
  aborted_ = true;
  arrival_.notify_all();
}

void ThreadExchange::reset() {
  const std::lock_guard lock(mutex_);
  arrived_ = 0;
  aborted_ = false;
}

}  // namespace skald
