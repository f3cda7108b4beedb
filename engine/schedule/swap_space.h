// The cache of preempted samples in the host's memory, from where it is copied back when they go
// on. The memory is taken in blocks when it is first needed, up to a bound, and used again; it is
// given back with the SwapSpace. Whether a copy is worth its time is decided by SwapTimes.
//
// Borrows the executor. A SwapSpace must outlive its SwappedCaches. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "engine/base/clock.h"
#include "engine/schedule/swap_times.h"
#include "engine/step/backend.h"

namespace skald {

struct SwapLimits {
  int64_t bytes = 0;  // most memory of the host; 0: nothing is swapped
  // Asked before memory is taken: whether the host has `bytes` left. Empty: it has.
  std::function<bool(int64_t bytes)> may_take = {};
};

class SwapSpace;

// The pages of a sequence from first_page() to its length(), and its state if the model has one.
// Frees its slots of the SwapSpace when it is destroyed.
class SwappedCache {
 public:
  SwappedCache(SwapSpace& space, int64_t first_page, int64_t length)
      : space_(space), first_page_(first_page), length_(length) {}
  SwappedCache(const SwappedCache&) = delete;
  SwappedCache& operator=(const SwappedCache&) = delete;
  ~SwappedCache();

  int64_t first_page() const { return first_page_; }
  int64_t first_token() const { return first_page_ * kPageTokens; }
  int64_t length() const { return length_; }

 private:
  friend class SwapSpace;

  SwapSpace& space_;
  int64_t first_page_, length_;
  std::vector<std::byte*> pages_;  // from first_page_ on
  std::byte* state_ = nullptr;
};

class SwapSpace {
 public:
  SwapSpace(Executor& executor, SwapLimits limits, const SecondsClock& clock);

  // The steps of the executor, by which copies are judged.
  SwapTimes& times() { return times_; }

  // Copies what `sequence` holds, without its pages before `first_page`. nullptr: computing it
  // again is faster, or the host has no room. Throws nothing because of a lack of memory.
  std::unique_ptr<SwappedCache> save(const Sequence& sequence, int64_t first_page);

  // Extends `sequence` to the saved length. It has the same tokens and at least
  // SwappedCache::first_token() of them. False: there is no memory, and the sequence is as long as
  // before or shorter.
  bool restore(const SwappedCache& saved, Sequence& sequence);

  int64_t bytes_taken() const { return allocated_; }  // of the host's memory
  int64_t bytes_used() const;                         // by SwappedCaches

 private:
  friend class SwappedCache;

  // Equal pieces of blocks of the host's memory: for pages, or for states.
  struct Slots {
    int64_t bytes = 0, count = 0;
    std::vector<std::byte*> free;

    std::byte* take();
  };

  bool make_room(Slots& slots, int64_t needed);
  void wait_for_device();

  Executor& executor_;
  SwapLimits limits_;
  const SecondsClock& clock_;
  SwapTimes times_;
  std::vector<std::shared_ptr<std::byte>> blocks_;
  int64_t allocated_ = 0;
  Slots pages_, states_;
};

}  // namespace skald
