#include "tokenizer/text/special_matcher.h"

#include <algorithm>

namespace skald {

void SpecialMatcher::add(std::string_view text, int32_t id) {
  if (text.empty()) return;
  entries_.emplace_back(text, id);
  first_bytes_.set(static_cast<uint8_t>(text[0]));
}

void SpecialMatcher::finish() { std::sort(entries_.begin(), entries_.end()); }

SpecialMatcher::Match SpecialMatcher::find(std::string_view text) const {
  for (size_t at = 0; at < text.size(); ++at) {
    if (!first_bytes_[static_cast<uint8_t>(text[at])]) continue;
    // [low, high) are the entries that begin with the characters read so far. The first of them may
    // end here.
    auto low = entries_.begin(), high = entries_.end();
    Match best = {at, 0, -1};
    for (size_t depth = 0; at + depth < text.size(); ++depth) {
      const char c = text[at + depth];
      const auto byte = [depth](const auto& entry) {
        return depth < entry.first.size() ? static_cast<uint8_t>(entry.first[depth]) : -1;
      };
      const int wanted = static_cast<uint8_t>(c);
      low = std::partition_point(low, high, [&](const auto& e) { return byte(e) < wanted; });
      high = std::partition_point(low, high, [&](const auto& e) { return byte(e) <= wanted; });
      if (low == high) break;
      if (low->first.size() == depth + 1) best = {at, depth + 1, low->second};
    }
    if (best.id >= 0) return best;
  }
  return {text.size(), 0, -1};
}

}  // namespace skald
