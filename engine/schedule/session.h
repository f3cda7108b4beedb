// A Session is one text on an executor: what was fed and what was picked, with its cache. It
// borrows the Executor, which must outlive it. Not thread-safe; sessions on one executor take
// turns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "engine/schedule/generation.h"
#include "engine/step/backend.h"

namespace skald {

class Session {
 public:
  // `request` names the text to the random numbers: the same seed and request draw the same.
  Session(Executor& executor, SamplingParams params, uint64_t request = 0);

  // Appends tokens; they are computed, in chunks of the executor's rows, by the next next().
  void feed(std::span<const int32_t> tokens);

  // Computes one chunk of what was fed, as long as more than one is left: false then. next() does
  // the same; asking before lets a long prompt be interrupted.
  bool compute_part();

  // Computes what was fed, the last token again where all are computed, and picks the next one,
  // which becomes part of the text. A filter is asked what it allows while the device computes, and
  // not told what was picked. A device that can begins the step that follows at once; `last` says
  // that none will.
  Picked next(TokenFilter* filter = nullptr, bool last = false);

  // For the tokens from now on.
  void set_sampling(SamplingParams params, uint64_t request = 0);

  // Forgets all tokens from `length` on.
  void truncate(int64_t length);

  // Of tokens(), how many are in the cache; the others wait for the next next().
  int64_t computed() const { return sequence_.length() - (ahead_ != 0); }

  // Page `index` of the cache, which holds pages_for(computed()) of them, as the executor's
  // page_bytes() bytes.
  void read_page(int64_t index, std::span<std::byte> bytes) const;

  // Takes `tokens` into an empty session with the cache that was computed for them: `load` fills in
  // page after page. Where it throws, the session stays empty.
  using LoadPage = std::function<void(int64_t index, std::span<std::byte> bytes)>;
  void restore(std::span<const int32_t> tokens, const LoadPage& load);

  const std::vector<int32_t>& tokens() const { return tokens_; }
  bool full() const { return static_cast<int64_t>(tokens_.size()) >= executor_->context(); }

 private:
  void drop_ahead();
  void compute();

  Executor* executor_;
  SamplingParams params_;
  uint64_t request_;
  Sequence sequence_;            // holds a prefix of tokens_; with a step ahead all of them
  std::vector<int32_t> tokens_;  // fed and picked
  int64_t ahead_ = 0;            // Picks::step that was begun with the last one; 0: none
};

}  // namespace skald
