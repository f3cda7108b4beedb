// The line of texts that wait for room in the cache. The oldest go first; where one does not fit
// yet, or another is just computing how it begins, younger ones may pass, but only so many.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <unordered_set>

#include "engine/memory/prefix_index.h"
#include "engine/schedule/scheduled_text.h"

namespace skald {

class Admission {
 public:
  Admission(PagePool& pool, PrefixIndex& prefixes, int64_t context)
      : pool_(pool), prefixes_(prefixes), context_(context) {}

  void add(std::unique_ptr<ScheduledText> text);  // to its place by age
  ScheduledTexts take_cancelled();

  // Moves what fits to `running`, until those are `most`. Returns how many tokens it did not have
  // to compute because they are shared.
  int64_t admit(ScheduledTexts& running, int64_t most);

  int64_t size() const { return static_cast<int64_t>(line_.size()); }

 private:
  enum class Fit { Yes, Later, NoRoom };

  void note_pages_in_the_making(const ScheduledTexts& running);
  Fit try_to_begin(ScheduledText& text, const ScheduledTexts& running);
  bool begin_beside_sibling(ScheduledText& text, const ScheduledTexts& running, bool& wait);
  void share_prefix(ScheduledText& text);
  int64_t promised_pages(const ScheduledTexts& running) const;
  bool has_room(const ScheduledText& text) const;

  PagePool& pool_;
  PrefixIndex& prefixes_;
  int64_t context_;
  std::deque<std::unique_ptr<ScheduledText>> line_;  // by age
  std::unordered_set<uint64_t> in_the_making_;       // pages that running texts will compute
  int64_t promised_ = 0;                             // pages that running texts still lack
};

}  // namespace skald
