#include "app/perplexity/text_cut.h"

#include <algorithm>

namespace skald {
namespace {

constexpr size_t kSide = 256;    // bytes compared on each side of a cut
constexpr int kMostTries = 100;  // for each kind of place

bool begins_character(char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }
bool blank(char c) { return c == ' ' || c == '\n'; }
bool letter(char c) { return (c | 32) >= 'a' && (c | 32) <= 'z'; }

bool safe_cut(std::string_view text, size_t at, const Tokenizer& tokenizer) {
  size_t first = at - std::min(at, kSide), last = std::min(text.size(), at + kSide);
  while (first < at && !begins_character(text[first])) ++first;
  while (last < text.size() && last > at && !begins_character(text[last])) --last;
  const auto encode = [&](size_t from, size_t to) {
    return tokenizer.encode(text.substr(from, to - from), inside_text());
  };
  std::vector<int32_t> parts = encode(first, at);
  const std::vector<int32_t> right = encode(at, last);
  parts.insert(parts.end(), right.begin(), right.end());
  return parts == encode(first, last);
}

}  // namespace

EncodeOptions inside_text() {
  EncodeOptions options;
  options.add_bos = options.add_eos = false;
  options.starts_text = false;
  return options;
}

size_t cut_text(std::string_view text, const Tokenizer& tokenizer) {
  if (text.size() <= kSide) return 0;
  const auto word_ends = [&](size_t at) { return blank(text[at]) && letter(text[at - 1]); };
  const auto before_blank = [&](size_t at) { return blank(text[at]) && !blank(text[at - 1]); };
  const auto anywhere = [&](size_t at) { return begins_character(text[at]); };
  const auto find = [&](const auto& is_place) -> size_t {
    int tries = 0;
    for (size_t at = text.size() - kSide; at > 0 && tries < kMostTries; --at) {
      if (is_place(at) && (++tries, safe_cut(text, at, tokenizer))) return at;
    }
    return 0;
  };
  size_t at = find(word_ends);
  if (at == 0) at = find(before_blank);
  if (at == 0) at = find(anywhere);
  return at;
}

}  // namespace skald
