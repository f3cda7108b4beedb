// Which cache pages belong to which sequence. Bookkeeping only: a backend keeps the pages' contents
// and decides their format. A PagePool must outlive its Sequences; neither is thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace skald {

inline constexpr int kPageTokens = 64;

inline int64_t pages_for(int64_t tokens) { return (tokens + kPageTokens - 1) / kPageTokens; }

// Of a cache for sequences of up to `context` tokens: of `cache_tokens` together, but at least one
// of them in full; with 0 of all of them in full.
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
  int32_t take();  // throws Error(Exit::Memory) when none is left
  void share(int32_t page);
  void release(int32_t page);
  bool shared(int32_t page) const { return owners_[static_cast<size_t>(page)] > 1; }

 private:
  std::vector<int32_t> owners_;  // sequences that hold each page
  std::vector<int32_t> free_;
};

// A sequence's tokens in the cache. Moves; the costly copy is named fork(), and shares all pages
// until one side writes.
class Sequence {
 public:
  explicit Sequence(PagePool& pool) : pool_(&pool) {}
  Sequence(PagePool& pool, std::span<const int32_t> shared);  // full pages, which others hold too
  Sequence(Sequence&& other) noexcept;
  Sequence& operator=(Sequence&& other) noexcept;
  ~Sequence() { truncate(0); }

  int64_t length() const { return length_; }
  std::span<const int32_t> pages() const { return pages_; }
  Sequence fork() const;
  void truncate(int64_t length);  // forgets all tokens from `length` on

  // Room for `tokens` more. A half-filled page that is shared becomes private first: the backend
  // must then copy its contents. Throws Error(Exit::Memory), changing nothing, when the pool is
  // dry.
  struct PageCopy {
    int32_t from, to;
  };
  std::optional<PageCopy> extend(int64_t tokens);
  int64_t missing_pages(int64_t tokens) const;  // that extend() would take

 private:
  bool copies_last(int64_t tokens) const;

  PagePool* pool_;
  std::vector<int32_t> pages_;
  int64_t length_ = 0;
};

}  // namespace skald
