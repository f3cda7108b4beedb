// Scores rows of logits that stay on the device: a list of rows with their targets goes there, a
// few numbers a row come back, one copy each way. The executor makes the logits, some rows at a
// time. Not thread-safe.
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

  // A new list: all rows whose target is not -1.
  void begin(std::span<const int32_t> targets, Stream stream);
  int count() const { return static_cast<int>(rows_.size()); }
  // On the device, indices into `targets`.
  const int32_t* rows(int first) const { return list_.as<int32_t>() + first; }

  // Sums of the list's rows [first, first + count). Where the logits are `gathered` they begin with
  // the first of these; else they are those of all `targets`.
  struct Part {
    const float* logits;
    bool gathered;
    int first, count;
  };
  void score(const Part& part, Stream stream);
  // After score() of the same part, here and in `base`, which has the same list.
  void compare(const Part& part, const DeviceScorer& base, const float* base_logits, Stream stream);

  // Wait; one result a target.
  std::vector<TokenScore> scores(Stream stream);
  std::vector<RowComparison> comparisons(DeviceScorer& base, Stream stream);

 private:
  TokenScore score_of(int i) const;
  void fetch(Stream stream);

  int64_t vocab_, most_rows_;
  PinnedMemory host_list_, host_sums_, host_divergences_;
  DeviceMemory list_;  // rows, then their targets
  DeviceMemory sums_, divergences_;
  std::vector<int32_t> rows_;  // of the list
  size_t targets_ = 0;
};

}  // namespace skald::cuda
