#include "engine/grammar/plain_chars.h"

#include <algorithm>
#include <bit>

#include "engine/grammar/utf8_ranges.h"

namespace skald::grammar {

bool is_plain(char32_t c) { return contains(kPlainChars, c); }

int plain_length(std::string_view text) {
  int count = 0;
  char32_t c = 0;
  for (size_t at = 0; at < text.size(); ++count) {
    if (!decode_utf8(text, at, c) || !is_plain(c)) return -1;
  }
  return count;
}

void PlainSet::add_touched(char32_t first, char32_t last) {
  const auto lead_of = [](char32_t c) {
    uint8_t bytes[4];
    encode_utf8(c, bytes);
    return bytes[0];
  };
  for (const CharRange& plain : kPlainChars) {
    const char32_t from = std::max(first, plain.first), to = std::min(last, plain.last);
    if (from > to) continue;
    const int end = lead_of(to);
    for (int lead = lead_of(from); lead <= end; ++lead) {
      if (lead < 0x7F || lead >= 0xC2) add(group(static_cast<uint8_t>(lead)));
    }
  }
}

PlainSet PlainSet::touched(std::span<const CharRange> chars) {
  PlainSet found;
  for (const CharRange& range : chars) found.add_touched(range.first, range.last);
  return found;
}

PlainSet PlainSet::within(std::span<const CharRange> chars) {
  PlainSet missing;
  char32_t next = 0;  // after the range before
  for (const CharRange& range : chars) {
    if (range.first > next) missing.add_touched(next, range.first - 1);
    next = range.last + 1;
  }
  if (next <= kLastCodePoint) missing.add_touched(next, kLastCodePoint);
  PlainSet all = touched(kPlainChars);
  all.remove(missing);
  return all;
}

int PlainSet::ascii() const {
  constexpr uint64_t kRest = (uint64_t{1} << (kAscii - 64)) - 1;
  return std::popcount(bits_[0]) + std::popcount(bits_[1] & kRest);
}

}  // namespace skald::grammar
