#include "engine/grammar/utf8_ranges.h"

#include <algorithm>

namespace skald::grammar {
namespace {

// Splits [first, last] until, in each part, all bytes after the first differing byte run over all
// values. Then independent byte ranges describe the part exactly. `first` and `last` have UTF-8 of
// the same length.
void split(char32_t first, char32_t last, std::vector<Utf8Range>& out) {
  uint8_t low[4] = {}, high[4] = {};
  const int length = encode_utf8(first, low);
  encode_utf8(last, high);
  for (int i = 1; i < length; ++i) {
    const char32_t tail = (char32_t{1} << (6 * i)) - 1;
    if ((first & ~tail) == (last & ~tail)) continue;
    if ((first & tail) != 0) {
      split(first, first | tail, out);
      split((first | tail) + 1, last, out);
      return;
    }
    if ((last & tail) != tail) {
      split(first, (last & ~tail) - 1, out);
      split(last & ~tail, last, out);
      return;
    }
  }
  Utf8Range range;
  range.length = length;
  for (size_t i = 0; i < range.bytes.size(); ++i) range.bytes[i] = {low[i], high[i]};
  out.push_back(range);
}

}  // namespace

std::vector<Utf8Range> utf8_ranges(std::span<const CharRange> chars) {
  constexpr CharRange kLengths[] = {
      {0, 0x7F}, {0x80, 0x7FF}, {0x800, 0xFFFF}, {0x10000, kLastCodePoint}};
  std::vector<Utf8Range> out;
  for (const CharRange& r : chars) {
    for (const CharRange& same : kLengths) {
      const char32_t first = std::max(r.first, same.first), last = std::min(r.last, same.last);
      if (first <= last) split(first, last, out);
    }
  }
  return out;
}

int encode_utf8(char32_t c, uint8_t bytes[4]) {
  const auto tail = [&](int shift) { return static_cast<uint8_t>(0x80 | (c >> shift & 0x3F)); };
  if (c < 0x80) {
    bytes[0] = static_cast<uint8_t>(c);
    return 1;
  }
  if (c < 0x800) {
    bytes[0] = static_cast<uint8_t>(0xC0 | c >> 6);
    bytes[1] = tail(0);
    return 2;
  }
  if (c < 0x10000) {
    bytes[0] = static_cast<uint8_t>(0xE0 | c >> 12);
    bytes[1] = tail(6);
    bytes[2] = tail(0);
    return 3;
  }
  bytes[0] = static_cast<uint8_t>(0xF0 | c >> 18);
  bytes[1] = tail(12);
  bytes[2] = tail(6);
  bytes[3] = tail(0);
  return 4;
}

void append_utf8(char32_t c, std::string& text) {
  uint8_t bytes[4];
  const int length = encode_utf8(c, bytes);
  text.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(length));
}

bool decode_utf8(std::string_view text, size_t& at, char32_t& c) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  if (at >= text.size()) return false;
  const uint8_t lead = byte(at);
  const int length = utf8_length(lead);
  if ((lead >= 0x80 && lead < 0xC2) || lead > 0xF4 ||
      text.size() - at < static_cast<size_t>(length)) {
    return false;
  }
  c = length == 1 ? lead : lead & (0x7F >> length);
  for (int i = 1; i < length; ++i) {
    if ((byte(at + i) & 0xC0) != 0x80) return false;
    c = c << 6 | (byte(at + i) & 0x3F);
  }
  uint8_t again[4];  // overlong, a surrogate, or too large?
  if (encode_utf8(c, again) != length || c > kLastCodePoint ||
      (c >= kFirstSurrogate && c <= kLastSurrogate)) {
    return false;
  }
  at += static_cast<size_t>(length);
  return true;
}

}  // namespace skald::grammar
