#include "engine/speculate/ngram.h"

#include <algorithm>

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

}  // namespace

// The last token has no continuation yet.
void NgramProposer::learn(std::span<const int32_t> tokens) {
  learned_ = std::min(learned_, tokens.size());
  for (size_t end = std::max<size_t>(learned_, 1); end < tokens.size(); ++end) {
    for (size_t kind = 0; kind < kLengths.size(); ++kind) {
      const size_t length = kLengths[kind];
      if (end >= length) ends_[kind][hash_of(tokens.subspan(end - length, length))] = end;
    }
  }
  learned_ = tokens.size();
}

Offer NgramProposer::offer(const GuessedText& text, int most) {
  const std::span<const int32_t> tokens = text.tokens;
  learn(tokens);
  for (size_t kind = 0; kind < kLengths.size(); ++kind) {
    const size_t length = kLengths[kind];
    if (tokens.size() <= length) continue;
    const auto last = tokens.last(length);
    const auto found = ends_[kind].find(hash_of(last));
    if (found == ends_[kind].end()) continue;
    found_ = found->second;
    if (found_ < tokens.size() &&
        std::equal(last.begin(), last.end(),
                   tokens.begin() + static_cast<std::ptrdiff_t>(found_ - length))) {
      return {static_cast<int>(kind), std::max(most, 0)};
    }
  }
  return {};
}

// What follows may reach into the guesses themselves: a text that repeats itself goes on so.
std::vector<int32_t> NgramProposer::guess(const GuessedText& text, int count) {
  const std::span<const int32_t> tokens = text.tokens;
  std::vector<int32_t> guesses;
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
    const size_t at = found_ + i;
    guesses.push_back(at < tokens.size() ? tokens[at] : guesses[at - tokens.size()]);
  }
  return guesses;
}

}  // namespace skald
