#include "tokenizer/text/merges.h"

#include <algorithm>

namespace skald {
namespace {

constexpr size_t kShort = 48;         // up to 48 tokens, a search for each merge is faster
constexpr size_t kKeptPlaces = 4096;  // larger buffers are freed

}  // namespace

void Merges::resize(size_t size) {
  std::vector<Entry> old(size);
  old.swap(table_);
  mask_ = size - 1;
  for (const Entry& entry : old) {
    if (entry.merge.rank == kNone) continue;
    size_t at = slot(entry.left, entry.right);
    while (table_[at].merge.rank != kNone) at = (at + 1) & mask_;
    table_[at] = entry;
  }
}

void Merges::reserve(size_t count) {
  size_t size = table_.size();
  while (size * 2 < count * 3) size *= 2;
  if (size > table_.size()) resize(size);
}

void Merges::add(int32_t left, int32_t right, Merge merge) {
  reserve(used_ + 1);
  size_t at = slot(left, right);
  while (table_[at].merge.rank != kNone && (table_[at].left != left || table_[at].right != right)) {
    at = (at + 1) & mask_;
  }
  used_ += table_[at].merge.rank == kNone;
  table_[at] = {left, right, merge};
  ranks_ = std::max(ranks_, merge.rank + 1);
}

void Merger::Places::add(int32_t place) {
  if (ascending_.empty() || place > ascending_.back()) {
    ascending_.push_back(place);
  } else {
    others_.push(place);
  }
}

int32_t Merger::Places::take() {
  const bool late =
      !others_.empty() && (next_ == ascending_.size() || others_.top() < ascending_[next_]);
  if (!late) return ascending_[next_++];
  const int32_t place = others_.top();
  others_.pop();
  return place;
}

void Merger::Places::clear() {
  if (ascending_.capacity() > kKeptPlaces) ascending_ = {};
  ascending_.clear();
  next_ = 0;
}

void Merger::merge(std::vector<int32_t>& tokens) {
  if (tokens.size() <= kShort) {
    merge_short(tokens);
  } else {
    merge_long(tokens);
  }
}

void Merger::merge_short(std::vector<int32_t>& tokens) const {
  Merges::Merge pairs[kShort];  // pairs[i]: merge of tokens i and i + 1
  size_t size = tokens.size();
  for (size_t i = 0; i + 1 < size; ++i) pairs[i] = merges_.find(tokens[i], tokens[i + 1]);
  while (size > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < size; ++i) {
      if (pairs[i].rank < pairs[best].rank) best = i;
    }
    if (pairs[best].rank == Merges::kNone) break;
    tokens[best] = pairs[best].id;
    std::copy(tokens.begin() + best + 2, tokens.begin() + size, tokens.begin() + best + 1);
    std::copy(pairs + best + 1, pairs + size - 1, pairs + best);
    --size;
    if (best > 0) pairs[best - 1] = merges_.find(tokens[best - 1], tokens[best]);
    if (best + 1 < size) pairs[best] = merges_.find(tokens[best], tokens[best + 1]);
  }
  tokens.resize(size);
}

void Merger::merge_long(std::vector<int32_t>& ids) {
  const int32_t size = static_cast<int32_t>(ids.size());
  places_of_rank_.resize(merges_.ranks(), -1);
  before_.resize(ids.size());
  after_.resize(ids.size());
  for (int32_t i = 0; i < size; ++i) {
    before_[i] = i - 1;
    after_[i] = i + 1;
  }
  after_.back() = -1;
  for (int32_t i = 0; i + 1 < size; ++i) add(i, ids);

  while (!ranks_.empty()) {
    const uint32_t rank = ranks_.top();
    const size_t at = static_cast<size_t>(places_of_rank_[rank]);
    // A merge may create a pair of a lower rank, which is then processed next.
    while (ranks_.top() == rank && !places_[at].empty()) merge_at(places_[at].take(), rank, ids);
    if (ranks_.top() != rank) continue;
    ranks_.pop();
    places_of_rank_[rank] = -1;
    places_[at].clear();
    free_.push_back(static_cast<int32_t>(at));
  }
  size_t kept = 0;
  for (int32_t i = 0; i >= 0; i = after_[i]) ids[kept++] = ids[i];
  ids.resize(kept);
}

void Merger::add(int32_t left, const std::vector<int32_t>& ids) {
  const uint32_t rank = merges_.find(ids[left], ids[after_[left]]).rank;
  if (rank == Merges::kNone) return;
  int32_t& at = places_of_rank_[rank];
  if (at < 0) {
    if (free_.empty()) {
      free_.push_back(static_cast<int32_t>(places_.size()));
      places_.emplace_back();
    }
    at = free_.back();
    free_.pop_back();
    ranks_.push(rank);
  }
  places_[at].add(left);
}

void Merger::merge_at(int32_t left, uint32_t rank, std::vector<int32_t>& ids) {
  // The pair may have changed since it was added. ids[i] is -1 if token i was merged into its left
  // neighbour.
  const int32_t right = after_[left];
  if (ids[left] < 0 || right < 0) return;
  const Merges::Merge merge = merges_.find(ids[left], ids[right]);
  if (merge.rank != rank) return;
  ids[left] = merge.id;
  ids[right] = -1;
  after_[left] = after_[right];
  if (before_[left] >= 0) add(before_[left], ids);
  if (after_[left] < 0) return;
  before_[after_[left]] = left;
  add(left, ids);
}

}  // namespace skald
