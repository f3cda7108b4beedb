// The queue of samples that wait for room in the KV cache. The oldest goes first. A younger sample
// may overtake one that does not fit yet, or one whose prefix another sample is just computing, but
// only a limited number of times.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <unordered_set>

#include "engine/memory/prefix_index.h"
#include "engine/schedule/scheduled_sample.h"

namespace skald {

class Admission {
 public:
  Admission(PagePool& pool, PrefixIndex& prefixes, int64_t context)
      : pool_(pool), prefixes_(prefixes), context_(context) {}

  void add(std::unique_ptr<ScheduledSample> sample);  // inserts the sample by age
  ScheduledSamples take_cancelled();

  // Moves samples that fit to `running`, until `running` has `most` samples. Returns the number of
  // their tokens that need no computation because their pages are shared.
  int64_t admit(ScheduledSamples& running, int64_t most);

  int64_t size() const { return static_cast<int64_t>(line_.size()); }

 private:
  enum class Fit { Yes, Later, NoRoom };

  void note_pages_in_the_making(const ScheduledSamples& running);
  Fit try_to_begin(ScheduledSample& sample, const ScheduledSamples& running);
  bool begin_beside_sibling(ScheduledSample& sample, const ScheduledSamples& running, bool& wait);
  void share_prefix(ScheduledSample& sample);
  int64_t promised_pages(const ScheduledSamples& running) const;
  bool has_room(const ScheduledSample& sample) const;

  PagePool& pool_;
  PrefixIndex& prefixes_;
  int64_t context_;
  std::deque<std::unique_ptr<ScheduledSample>> line_;  // by age
  std::unordered_set<uint64_t> in_the_making_;  // hashes of pages that running samples will compute
  int64_t promised_ = 0;                        // pages that running samples still need
};

}  // namespace skald
