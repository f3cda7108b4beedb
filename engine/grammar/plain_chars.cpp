#include "engine/grammar/plain_chars.h"

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

PlainSet PlainSet::touched(const CharClass& chars) {
  const auto lead_of = [](char32_t c) {
    uint8_t bytes[4];
    encode_utf8(c, bytes);
    return bytes[0];
  };
  PlainSet found;
  for (const CharRange& range :
       intersection(chars, {std::begin(kPlainChars), std::end(kPlainChars)})) {
    const int last = lead_of(range.last);
    for (int lead = lead_of(range.first); lead <= last; ++lead) {
      if (lead < 0x7F || lead >= 0xC2) found.add(group(static_cast<uint8_t>(lead)));
    }
  }
  return found;
}

PlainSet PlainSet::within(const CharClass& chars) {
  PlainSet all = touched({std::begin(kPlainChars), std::end(kPlainChars)});
  all.remove(touched(skald::grammar::complement(chars)));
  return all;
}

int PlainSet::ascii() const {
  constexpr uint64_t kRest = (uint64_t{1} << (kAscii - 64)) - 1;
  return std::popcount(bits_[0]) + std::popcount(bits_[1] & kRest);
}

}  // namespace skald::grammar
