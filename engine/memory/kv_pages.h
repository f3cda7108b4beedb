// Which cache pages belong to which sequence. Bookkeeping only: a backend stores the pages'
// contents and decides their format. A PagePool must outlive its Sequences; neither is thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
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

class PagePool {
 public:
  explicit PagePool(int64_t pages);

  int64_t size() const { return static_cast<int64_t>(owners_.size()); }
  int64_t free_pages() const { return static_cast<int64_t>(free_.size()); }
  int32_t take();  // throws Error(Exit::Memory) when none is free
  void share(int32_t page);
  void release(int32_t page);
  bool shared(int32_t page) const { return owners_[static_cast<size_t>(page)] > 1; }

 private:
  std::vector<int32_t> owners_;  // number of owners of each page
  std::vector<int32_t> free_;
};

// The tokens of one sequence in the cache. A Sequence moves; the copy is named fork() and shares
// all pages until one side writes.
class Sequence {
 public:
  explicit Sequence(PagePool& pool) : pool_(&pool) {}
  // Begins with the tokens of `shared`: full pages that have other owners too.
  Sequence(PagePool& pool, std::span<const int32_t> shared);
  Sequence(Sequence&& other) noexcept;
  Sequence& operator=(Sequence&& other) noexcept;
  ~Sequence() { truncate(0); }

  int64_t length() const { return length_; }
  std::span<const int32_t> pages() const { return pages_; }
  Sequence fork() const;
  void truncate(int64_t length);  // drops all tokens from `length` on

  // Makes room for `tokens` more. If the last page is half-filled and shared, it is replaced by a
  // private page, and the backend must then copy the contents. Throws Error(Exit::Memory) and
  // changes nothing when too few pages are free.
  struct PageCopy {
    int32_t from, to;
  };
  std::optional<PageCopy> extend(int64_t tokens);
  int64_t missing_pages(int64_t tokens) const;  // pages that extend(tokens) would take

 private:
  bool copies_last(int64_t tokens) const;

  PagePool* pool_;
  std::vector<int32_t> pages_;
  int64_t length_ = 0;
};

}  // namespace skald
