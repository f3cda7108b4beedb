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

Proposal NgramProposer::propose(std::span<const int32_t> tokens, int most) {
  learn(tokens);
  Proposal proposal;
  for (size_t kind = 0; kind < kLengths.size(); ++kind) {
    const size_t length = kLengths[kind];
    if (tokens.size() <= length) continue;
    const auto last = tokens.last(length);
    const auto found = ends_[kind].find(hash_of(last));
    if (found == ends_[kind].end()) continue;
    const size_t end = found->second;
    if (end >= tokens.size() ||
        !std::equal(last.begin(), last.end(),
                    tokens.begin() + static_cast<std::ptrdiff_t>(end - length))) {
      continue;
    }
    proposal.kind = static_cast<int>(kind);
    // What follows may reach into the guesses themselves: a text that repeats itself goes on so.
    for (size_t i = 0; i < static_cast<size_t>(std::max(most, 0)); ++i) {
      const size_t at = end + i;
      proposal.tokens.push_back(at < tokens.size() ? tokens[at]
                                                   : proposal.tokens[at - tokens.size()]);
    }
    return proposal;
  }
  return proposal;
}

}  // namespace skald
