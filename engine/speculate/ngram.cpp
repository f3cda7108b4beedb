#include "engine/speculate/ngram.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "engine/base/check.h"

namespace skald {
namespace {

uint64_t hash_of(std::span<const int32_t> tokens) {
  uint64_t hash = 0x9e3779b97f4a7c15;
  for (int32_t token : tokens) {
    hash = (hash ^ static_cast<uint32_t>(token)) * 0xbf58476d1ce4e5b9;
    hash ^= hash >> 29;
  }
  return hash;
}

// True if `last` stands in `tokens` right before `end`.
bool ends_with(std::span<const int32_t> tokens, size_t end, std::span<const int32_t> last) {
  const auto there = tokens.subspan(end - last.size(), last.size());
  return std::equal(last.begin(), last.end(), there.begin());
}

}  // namespace

NgramText::NgramText(std::vector<int32_t> tokens) : tokens_(std::move(tokens)) {
  check(tokens_.size() < UINT32_MAX / 4, "the places of a text have 32 bits");
  const std::span<const int32_t> all(tokens_);
  for (size_t i = 0; i < kNgramLengths.size(); ++i) {
    ends_[i].assign(std::bit_ceil(2 * tokens_.size() + 1), 0);  // half of it stays free
    const size_t length = kNgramLengths[i];
    for (size_t end = length; end < tokens_.size(); ++end) {
      ends_[i][slot(i, all.subspan(end - length, length))] = static_cast<uint32_t>(end);
    }
  }
}

// The slot with the end of such tokens, or a free one.
size_t NgramText::slot(size_t length, std::span<const int32_t> last) const {
  const std::vector<uint32_t>& ends = ends_[length];
  size_t at = hash_of(last) & (ends.size() - 1);
  while (ends[at] != 0 && !ends_with(tokens_, ends[at], last)) at = (at + 1) & (ends.size() - 1);
  return at;
}

size_t NgramText::find(size_t length, std::span<const int32_t> text) const {
  if (text.size() < kNgramLengths[length]) return 0;
  return ends_[length][slot(length, text.last(kNgramLengths[length]))];
}

// The last token has no continuation yet.
void NgramProposer::learn(std::span<const int32_t> tokens) {
  learned_ = std::min(learned_, tokens.size());
  for (size_t end = std::max<size_t>(learned_, 1); end < tokens.size(); ++end) {
    for (size_t i = 0; i < kNgramLengths.size(); ++i) {
      const size_t length = kNgramLengths[i];
      if (end >= length) ends_[i][hash_of(tokens.subspan(end - length, length))] = end;
    }
  }
  learned_ = tokens.size();
}

// Returns where the last tokens of the text ended earlier in it; 0: nowhere.
size_t NgramProposer::find(size_t length, std::span<const int32_t> tokens) const {
  if (tokens.size() <= kNgramLengths[length]) return 0;
  const auto last = tokens.last(kNgramLengths[length]);
  const auto found = ends_[length].find(hash_of(last));
  if (found == ends_[length].end() || found->second >= tokens.size()) return 0;
  return ends_with(tokens, found->second, last) ? found->second : 0;
}

Offer NgramProposer::offer(const GuessedText& text, int most) {
  learn(text.tokens);
  most = std::max(most, 0);
  for (size_t i = 0; i < kNgramLengths.size(); ++i) {
    const int kind = static_cast<int>(i);
    in_file_ = false;
    found_ = find(i, text.tokens);
    if (found_ > 0) return {kind, most};
    if (!file_) continue;
    in_file_ = true;
    found_ = file_->find(i, text.tokens);
    if (found_ == 0) continue;
    const size_t left = file_->tokens().size() - found_;
    return {kind + static_cast<int>(kNgramLengths.size()),
            static_cast<int>(std::min(left, static_cast<size_t>(most)))};
  }
  return {};
}

// Copies the tokens after the earlier place. If they reach the text's end, the guesses themselves
// go on: a text that repeats itself continues so.
std::vector<int32_t> NgramProposer::guess(const GuessedText& text, int count) {
  if (in_file_) {
    const auto guesses = file_->tokens().subspan(found_, static_cast<size_t>(count));
    return {guesses.begin(), guesses.end()};
  }
  const std::span<const int32_t> tokens = text.tokens;
  std::vector<int32_t> guesses;
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
    const size_t at = found_ + i;
    guesses.push_back(at < tokens.size() ? tokens[at] : guesses[at - tokens.size()]);
  }
  return guesses;
}

}  // namespace skald
