#include "engine/memory/kv_pages.h"

#include <utility>

#include "engine/base/error.h"

namespace skald {

PagePool::PagePool(int64_t pages) : owners_(static_cast<size_t>(pages), 0) {
  free_.reserve(owners_.size());
  for (int64_t page = pages; page-- > 0;) free_.push_back(static_cast<int32_t>(page));
}

int32_t PagePool::take() {
  if (free_.empty()) {
    fail(Exit::Memory, "the KV cache is full: all ", size(), " pages of ", kPageTokens,
         " tokens are in use; ask for a larger context with -c");
  }
  const int32_t page = free_.back();
  free_.pop_back();
  owners_[static_cast<size_t>(page)] = 1;
  return page;
}

void PagePool::share(int32_t page) { ++owners_[static_cast<size_t>(page)]; }

void PagePool::release(int32_t page) {
  check(owners_[static_cast<size_t>(page)] > 0, "a released page has an owner");
  if (--owners_[static_cast<size_t>(page)] == 0) free_.push_back(page);
}

Sequence::Sequence(PagePool& pool, std::span<const int32_t> shared)
    : pool_(&pool),
      pages_(shared.begin(), shared.end()),
      length_(static_cast<int64_t>(shared.size()) * kPageTokens) {
  for (int32_t page : pages_) pool_->share(page);
}

Sequence::Sequence(Sequence&& other) noexcept
    : pool_(other.pool_),
      pages_(std::move(other.pages_)),
      length_(std::exchange(other.length_, 0)) {
  other.pages_.clear();
}

Sequence& Sequence::operator=(Sequence&& other) noexcept {
  std::swap(pool_, other.pool_);
  std::swap(pages_, other.pages_);
  std::swap(length_, other.length_);
  return *this;
}

Sequence Sequence::fork() const {
  Sequence copy(*pool_);
  copy.pages_ = pages_;
  copy.length_ = length_;
  for (int32_t page : pages_) pool_->share(page);
  return copy;
}

void Sequence::truncate(int64_t length) {
  check(length >= 0 && length <= length_, "a sequence is truncated to a part of itself");
  const size_t keep = static_cast<size_t>(pages_for(length));
  while (pages_.size() > keep) {
    pool_->release(pages_.back());
    pages_.pop_back();
  }
  length_ = length;
}

bool Sequence::copies_last(int64_t tokens) const {
  return tokens > 0 && length_ % kPageTokens != 0 && pool_->shared(pages_.back());
}

int64_t Sequence::missing_pages(int64_t tokens) const {
  return pages_for(length_ + tokens) - pages_for(length_) + copies_last(tokens);
}

std::optional<Sequence::PageCopy> Sequence::extend(int64_t tokens) {
  const int64_t missing = missing_pages(tokens);
  if (pool_->free_pages() < missing) {
    fail(Exit::Memory, "the KV cache is full: ", pool_->free_pages(), " of ", pool_->size(),
         " pages of ", kPageTokens, " tokens are free, ", missing,
         " are needed; ask for a larger context with -c");
  }
  const bool copy_last = copies_last(tokens);
  std::optional<PageCopy> copy;
  if (copy_last) {
    copy = PageCopy{pages_.back(), pool_->take()};
    pool_->release(pages_.back());
    pages_.back() = copy->to;
  }
  for (int64_t i = copy_last; i < missing; ++i) pages_.push_back(pool_->take());
  length_ += tokens;
  return copy;
}

}  // namespace skald
