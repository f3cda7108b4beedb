// Scores rows of logits in device memory. One copy sends a list of rows and their targets to the
// device; one copy brings a few numbers for each row back. The executor computes the logits, some
// rows at a time. One thread at a time may use a DeviceScorer.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cuda/gpu/memory.h"
#include "cuda/kernels/sample/score.h"
#include "engine/sampling/score.h"

namespace skald::cuda {

class DeviceScorer {
 public:
  // For lists of up to `rows` rows. Allocates score_list_bytes(), score_sums_bytes() and
  // divergence_bytes().
  DeviceScorer(int64_t vocab, int64_t rows);

  // Begins a new list: all rows whose target is not -1.
  void begin(std::span<const int32_t> targets, Stream stream);
  int count() const { return static_cast<int>(rows_.size()); }
  // Entries of the list from `first` on, in device memory: indices into `targets`.
  const int32_t* rows(int first) const { return list_.as<int32_t>() + first; }

  // Rows [first, first + count) of the list. gathered: `logits` has these rows alone. Otherwise
  // `logits` has a row for each of `targets`.
  struct Part {
    const float* logits;
    bool gathered;
    int first, count;
  };
  void score(const Part& part, Stream stream);
  // Call compare() after score() of the same part, here and in `base`. Both have the same list.
  void compare(const Part& part, const DeviceScorer& base, const float* base_logits, Stream stream);

  // Both wait for the device. They return one result per target.
  std::vector<TokenScore> scores(Stream stream);
  std::vector<RowComparison> comparisons(DeviceScorer& base, Stream stream);

 private:
  TokenScore score_of(int i) const;
  void fetch(Stream stream);

  int64_t vocab_, most_rows_;
  PinnedMemory host_list_, host_sums_, host_divergences_;
  DeviceMemory list_;  // rows, then their targets
  DeviceMemory sums_, divergences_;
  std::vector<int32_t> rows_;  // the list, on the host
  size_t targets_ = 0;
};

}  // namespace skald::cuda
