// Which cache pages belong to which sequence, and which slot holds its recurrent state, if the
// model has one. Bookkeeping only: a backend stores the contents of pages and slots and decides
// their format. A PagePool must outlive its Sequences; neither is thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "engine/memory/page_tokens.h"

namespace skald {

inline int64_t pages_for(int64_t tokens) { return (tokens + kPageTokens - 1) / kPageTokens; }

// The pages of a cache for `sequences` sequences of up to `context` tokens each. cache_tokens == 0:
// room for all sequences at full length. Otherwise room for `cache_tokens` in total, but at least
// for one sequence at full length.
inline int64_t cache_pages(int64_t context, int64_t sequences, int64_t cache_tokens) {
  const int64_t one = pages_for(context);
  if (cache_tokens == 0) return one * sequences;
  const int64_t together = pages_for(cache_tokens);
  return together > one ? together : one;
}

// Numbers 0 to size - 1, each with a count of its owners.
class OwnedNumbers {
 public:
  explicit OwnedNumbers(int64_t size);

  int64_t size() const { return static_cast<int64_t>(owners_.size()); }
  int64_t free() const { return static_cast<int64_t>(free_.size()); }
  int32_t take();  // one must be free
  void share(int32_t number);
  void release(int32_t number);
  int32_t owners(int32_t number) const { return owners_[static_cast<size_t>(number)]; }
  bool shared(int32_t number) const { return owners(number) > 1; }

 private:
  std::vector<int32_t> owners_;  // number of owners of each
  std::vector<int32_t> free_;
};

class PagePool {
 public:
  // `state_slots` is 0 for models without recurrent states. Otherwise each sequence needs a slot,
  // and further slots are for checkpoints.
  explicit PagePool(int64_t pages, int64_t state_slots = 0) : pages_(pages), states_(state_slots) {}

  int64_t size() const { return pages_.size(); }
  int64_t free_pages() const { return pages_.free(); }
  int32_t take();  // throws Error(Exit::Memory) when none is free
  void share(int32_t page) { pages_.share(page); }
  void release(int32_t page) { pages_.release(page); }
  int32_t owners(int32_t page) const { return pages_.owners(page); }
  bool shared(int32_t page) const { return pages_.shared(page); }

  bool has_states() const { return states_.size() > 0; }
  OwnedNumbers& states() { return states_; }
  const OwnedNumbers& states() const { return states_; }

 private:
  OwnedNumbers pages_, states_;
};

// The tokens of one sequence in the cache. A Sequence moves; the copy is named fork() and shares
// all pages and the state until one side writes.
//
// A recurrent state belongs to one length and cannot be shortened. A checkpoint keeps the state of
// a length for later: truncate() returns to it.
class Sequence {
 public:
  // `adapter` changes the model for all of its tokens (engine/program/adapters.h).
  explicit Sequence(PagePool& pool, int adapter = 0) : pool_(&pool), adapter_(adapter) {}
  // Begins with the tokens of `shared`: full pages that have other owners too. For models without
  // recurrent states.
  Sequence(PagePool& pool, std::span<const int32_t> shared, int adapter = 0);
  Sequence(Sequence&& other) noexcept;
  Sequence& operator=(Sequence&& other) noexcept;
  ~Sequence() {
    if (pool_) truncate(0);
  }

  // A sequence whose pages and state belong to a pool in another process, which keeps the books.
  // It owns nothing: a backend can read it, and no other call is allowed.
  struct Elsewhere {
    std::vector<int32_t> pages;
    int64_t length = 0;
    int32_t state = -1;
    int adapter = 0;
  };
  explicit Sequence(Elsewhere elsewhere)
      : pool_(nullptr),
        adapter_(elsewhere.adapter),
        pages_(std::move(elsewhere.pages)),
        length_(elsewhere.length),
        state_(elsewhere.state) {}

  const PagePool& pool() const { return *pool_; }
  int64_t length() const { return length_; }
  int adapter() const { return adapter_; }
  std::span<const int32_t> pages() const { return pages_; }
  int32_t state() const { return state_; }  // the slot of the state at length(); -1: none yet
  Sequence fork() const;                    // without checkpoints

  // Drops all tokens from `length` on. With a recurrent state, the sequence goes on to the last
  // checkpoint that is not longer than `length`, or to 0: length() says where it is.
  void truncate(int64_t length);

  // Makes room for `tokens` more. If the last page is half-filled and shared, or the state is
  // shared, it is replaced by a private one, and the backend must then copy the contents. Throws
  // Error(Exit::Memory) and changes nothing when too few pages or slots are free.
  struct Copy {
    int32_t from, to;
  };
  struct Copies {
    std::optional<Copy> page, state;
  };
  Copies extend(int64_t tokens);
  // Takes back the last extend(), of as many tokens, before a backend has copied or computed
  // anything. `copies` is what extend() returned.
  void undo_extend(int64_t tokens, const Copies& copies);
  int64_t missing_pages(int64_t tokens) const;  // pages that extend(tokens) would take

  // Keeps the present state for truncate(). If no slot is free, it takes the place of the oldest
  // checkpoint; without one, nothing is kept. Models without recurrent states need none.
  enum class Kept : uint8_t {
    No,
    Now,
    Already
  };  // Already: there was a checkpoint, or none needed
  Kept checkpoint();
  // Drops the checkpoint of this length, if there is one.
  void forget(int64_t length);
  // The slot with the state of `length`, if the sequence still has it; else -1.
  int32_t state_at(int64_t length) const;
  // The longest length, at most `length`, that the sequence can be truncated to.
  int64_t kept_length(int64_t length) const;

 private:
  struct Checkpoint {
    int64_t length;
    int32_t slot;
  };

  bool copies_last(int64_t tokens) const;
  void drop_pages(int64_t length);
  void drop_checkpoint(size_t index);
  std::optional<Copy> own_state();

  PagePool* pool_;
  int adapter_ = 0;
  std::vector<int32_t> pages_;
  int64_t length_ = 0;
  int32_t state_ = -1;
  std::vector<Checkpoint> checkpoints_;  // shorter ones first
};

}  // namespace skald
