#include "engine/memory/kv_pages.h"

#include <algorithm>
#include <utility>

#include "engine/base/error.h"

namespace skald {

OwnedNumbers::OwnedNumbers(int64_t size) : owners_(static_cast<size_t>(size), 0) {
  free_.reserve(owners_.size());
  for (int64_t number = size; number-- > 0;) free_.push_back(static_cast<int32_t>(number));
}

int32_t OwnedNumbers::take() {
  check(!free_.empty(), "a number that is taken is free");
  const int32_t number = free_.back();
  free_.pop_back();
  owners_[static_cast<size_t>(number)] = 1;
  return number;
}

void OwnedNumbers::share(int32_t number) { ++owners_[static_cast<size_t>(number)]; }

void OwnedNumbers::release(int32_t number) {
  check(owners_[static_cast<size_t>(number)] > 0, "a released number has an owner");
  if (--owners_[static_cast<size_t>(number)] == 0) free_.push_back(number);
}

int32_t PagePool::take() {
  if (pages_.free() == 0) {
    fail(Exit::Memory, "the KV cache is full: all ", size(), " pages of ", kPageTokens,
         " tokens are in use; ask for a larger context with -c");
  }
  return pages_.take();
}

Sequence::Sequence(PagePool& pool, std::span<const int32_t> shared, int adapter)
    : pool_(&pool),
      adapter_(adapter),
      pages_(shared.begin(), shared.end()),
      length_(static_cast<int64_t>(shared.size()) * kPageTokens) {
  check(shared.empty() || !pool.has_states(), "pages alone do not hold a recurrent state");
  for (int32_t page : pages_) pool_->share(page);
}

Sequence::Sequence(Sequence&& other) noexcept
    : pool_(other.pool_),
      adapter_(other.adapter_),
      pages_(std::move(other.pages_)),
      length_(std::exchange(other.length_, 0)),
      state_(std::exchange(other.state_, -1)),
      checkpoints_(std::move(other.checkpoints_)) {
  other.pages_.clear();
  other.checkpoints_.clear();
}

Sequence& Sequence::operator=(Sequence&& other) noexcept {
  std::swap(pool_, other.pool_);
  std::swap(adapter_, other.adapter_);
  std::swap(pages_, other.pages_);
  std::swap(length_, other.length_);
  std::swap(state_, other.state_);
  std::swap(checkpoints_, other.checkpoints_);
  return *this;
}

Sequence Sequence::fork() const {
  Sequence copy(*pool_, adapter_);
  copy.pages_ = pages_;
  copy.length_ = length_;
  copy.state_ = state_;
  for (int32_t page : pages_) pool_->share(page);
  if (state_ >= 0) pool_->states().share(state_);
  return copy;
}

void Sequence::drop_pages(int64_t length) {
  const size_t keep = static_cast<size_t>(pages_for(length));
  while (pages_.size() > keep) {
    pool_->release(pages_.back());
    pages_.pop_back();
  }
  length_ = length;
}

void Sequence::drop_checkpoint(size_t index) {
  pool_->states().release(checkpoints_[index].slot);
  checkpoints_.erase(checkpoints_.begin() + static_cast<std::ptrdiff_t>(index));
}

void Sequence::truncate(int64_t length) {
  check(length >= 0 && length <= length_, "a sequence is truncated to a part of itself");
  if (pool_->has_states() && (length < length_ || length == 0)) {
    while (!checkpoints_.empty() && checkpoints_.back().length > length) {
      drop_checkpoint(checkpoints_.size() - 1);
    }
    length = checkpoints_.empty() ? 0 : checkpoints_.back().length;
    if (state_ >= 0) pool_->states().release(state_);
    state_ = checkpoints_.empty() ? -1 : checkpoints_.back().slot;
    if (state_ >= 0) pool_->states().share(state_);
  }
  drop_pages(length);
}

int64_t Sequence::kept_length(int64_t length) const {
  if (!pool_->has_states() || length >= length_) return std::min(length, length_);
  int64_t kept = 0;
  for (const Checkpoint& one : checkpoints_) {
    if (one.length <= length) kept = one.length;
  }
  return kept;
}

int32_t Sequence::state_at(int64_t length) const {
  if (length == length_) return state_;
  for (const Checkpoint& one : checkpoints_) {
    if (one.length == length) return one.slot;
  }
  return -1;
}

Sequence::Kept Sequence::checkpoint() {
  if (state_ < 0 || length_ == 0) return Kept::Already;
  if (!checkpoints_.empty() && checkpoints_.back().length == length_) return Kept::Already;
  // The next extend() needs a slot of its own, since a checkpoint's state stays.
  if (pool_->states().free() == 0) {
    if (checkpoints_.empty()) return Kept::No;
    drop_checkpoint(0);
    if (pool_->states().free() == 0) return Kept::No;
  }
  checkpoints_.push_back({length_, state_});
  pool_->states().share(state_);
  return Kept::Now;
}

void Sequence::forget(int64_t length) {
  for (size_t i = 0; i < checkpoints_.size(); ++i) {
    if (checkpoints_[i].length == length) return drop_checkpoint(i);
  }
}

// The slot that the next tokens may write.
std::optional<Sequence::Copy> Sequence::own_state() {
  OwnedNumbers& states = pool_->states();
  if (!pool_->has_states() || (state_ >= 0 && !states.shared(state_))) return {};
  if (states.free() == 0) {
    // Other sequences have taken the slot that checkpoint() counted on.
    for (size_t i = checkpoints_.size(); i-- > 0 && states.free() == 0;) drop_checkpoint(i);
    if (state_ >= 0 && !states.shared(state_)) return {};
  }
  if (states.free() == 0) {
    fail(Exit::Memory, "the states of all ", states.size(),
         " sequences are in use; ask for fewer sequences at a time");
  }
  const int32_t from = state_;
  state_ = states.take();
  if (from < 0) return {};
  states.release(from);
  return Copy{from, state_};
}

bool Sequence::copies_last(int64_t tokens) const {
  return tokens > 0 && length_ % kPageTokens != 0 && pool_->shared(pages_.back());
}

int64_t Sequence::missing_pages(int64_t tokens) const {
  return pages_for(length_ + tokens) - pages_for(length_) + copies_last(tokens);
}

Sequence::Copies Sequence::extend(int64_t tokens) {
  const int64_t missing = missing_pages(tokens);
  if (pool_->free_pages() < missing) {
    fail(Exit::Memory, "the KV cache is full: ", pool_->free_pages(), " of ", pool_->size(),
         " pages of ", kPageTokens, " tokens are free, ", missing,
         " are needed; ask for a larger context with -c");
  }
  const bool copy_last = copies_last(tokens);
  Copies copies;
  if (tokens > 0) copies.state = own_state();
  if (copy_last) {
    copies.page = Copy{pages_.back(), pool_->take()};
    pool_->release(pages_.back());
    pages_.back() = copies.page->to;
  }
  for (int64_t i = copy_last; i < missing; ++i) pages_.push_back(pool_->take());
  length_ += tokens;
  return copies;
}

void Sequence::undo_extend(int64_t tokens, const Copies& copies) {
  check(tokens <= length_, "tokens that are taken back are there");
  drop_pages(length_ - tokens);
  // The shared ones still have another owner: the last owner does not copy.
  if (copies.page) {
    pool_->share(copies.page->from);
    pool_->release(std::exchange(pages_.back(), copies.page->from));
  }
  if (copies.state) {
    pool_->states().share(copies.state->from);
    pool_->states().release(std::exchange(state_, copies.state->from));
  }
}

}  // namespace skald
