// "Plain" characters are those that every JSON string may contain as they are: no control
// characters, line breaks, quotes or backslashes. Most tokens consist of them, and inside a string
// most of them lead to the same place, so masks.h decides on many tokens at once.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "engine/grammar/rules.h"

namespace skald::grammar {

// All plain characters; is_plain(): true for one of them. plain_length(): the characters of a plain
// text, or -1.
inline constexpr CharRange kPlainChars[] = {{0x20, 0x21},
                                            {0x23, 0x5B},
                                            {0x5D, 0x7E},
                                            {0x80, 0x2027},
                                            {0x202A, kFirstSurrogate - 1},
                                            {kLastSurrogate + 1, kLastCodePoint}};
bool is_plain(char32_t c);
int plain_length(std::string_view text);

// Whether a plain character may begin with one of these bytes.
inline bool may_begin_plain(uint8_t first, uint8_t last) {
  return last >= 0xC2 || (first <= 0x7E && last >= 0x20 && !(first == last && first == '"') &&
                          !(first == last && first == '\\'));
}

// A set of plain characters, by their first bytes: those of ASCII one by one, others in groups.
class PlainSet {
 public:
  static constexpr int kAscii = 95, kAll = 128;  // members: those of ASCII, and groups
  // The number of the characters that begin with `lead`.
  static constexpr int group(uint8_t lead) {
    if (lead < 0x7F) return lead - 0x20;
    if (lead < 0xE0) return kAscii + lead % 16;
    return lead < 0xF0 ? kAscii + 16 + lead % 16 : kAll - 1;
  }
  // The members that hold one of these characters; those of which all plain characters are among
  // these. `chars` are normalized; those that are not plain do not count.
  static PlainSet touched(std::span<const CharRange> chars);
  static PlainSet within(std::span<const CharRange> chars);

  void add(int member) { bits_[member / 64] |= uint64_t{1} << (member % 64); }
  void add(const PlainSet& other) {
    for (size_t i = 0; i < bits_.size(); ++i) bits_[i] |= other.bits_[i];
  }
  void remove(int member) { bits_[member / 64] &= ~(uint64_t{1} << (member % 64)); }
  void keep(const PlainSet& other) {
    for (size_t i = 0; i < bits_.size(); ++i) bits_[i] &= other.bits_[i];
  }
  void remove(const PlainSet& other) {
    for (size_t i = 0; i < bits_.size(); ++i) bits_[i] &= ~other.bits_[i];
  }
  bool has(int member) const { return bits_[member / 64] >> (member % 64) & 1; }
  bool meets(const PlainSet& other) const {
    return (bits_[0] & other.bits_[0]) != 0 || (bits_[1] & other.bits_[1]) != 0;
  }
  bool holds(const PlainSet& other) const {
    return (other.bits_[0] & ~bits_[0]) == 0 && (other.bits_[1] & ~bits_[1]) == 0;
  }
  PlainSet complement() const {
    PlainSet rest;
    for (size_t i = 0; i < bits_.size(); ++i) rest.bits_[i] = ~bits_[i];
    return rest;
  }
  int ascii() const;  // the number of its characters of ASCII
  bool operator==(const PlainSet&) const = default;

 private:
  void add_touched(char32_t first, char32_t last);
  std::array<uint64_t, 2> bits_ = {};
};

// The plain characters that a place takes.
struct PlainChars {
  PlainSet usual;  // each of these leads to the same place and nowhere else
  PlainSet taken;  // all of them
  bool operator==(const PlainChars&) const = default;
};

}  // namespace skald::grammar
