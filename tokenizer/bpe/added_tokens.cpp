#include "tokenizer/bpe/added_tokens.h"

#include <utf8proc.h>

#include <algorithm>

#include "tokenizer/text/utf8.h"

namespace skald {
namespace {

bool is_word_character(char32_t c) {
  if (c == 0x200C || c == 0x200D) return true;
  switch (utf8proc_category(static_cast<int32_t>(c))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:
      return false;
  }
}

// The last character of a text that is not empty.
std::string_view last_character(std::string_view text) {
  size_t at = text.size() - 1;
  while (at > 0 && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80) --at;
  return text.substr(at);
}

std::string_view first_character(std::string_view text) {
  return text.substr(0, utf8_length(text));
}

bool stands_alone(std::string_view before, std::string_view after) {
  return (before.empty() || !is_word_character(utf8_code_point(last_character(before)))) &&
         (after.empty() || !is_word_character(utf8_code_point(first_character(after))));
}

}  // namespace

void AddedTokens::add(AddedToken token) {
  tokens_.push_back(std::move(token));
  matcher_.add(tokens_.back().text, static_cast<int32_t>(tokens_.size()) - 1);
}

std::vector<AddedTokens::Part> AddedTokens::split(std::string_view text, bool parse_special) const {
  std::vector<Part> parts;
  const auto put = [&](size_t begin, size_t end, int32_t id) {
    parts.push_back({{static_cast<uint32_t>(begin), static_cast<uint32_t>(end)}, id});
  };
  size_t done = 0;
  for (size_t from = 0; from < text.size();) {
    const SpecialMatcher::Match match = matcher_.find(text.substr(from));
    if (match.id < 0) break;
    size_t begin = from + match.at, end = begin + match.length;
    from = end;
    const AddedToken& token = tokens_[static_cast<size_t>(match.id)];
    if (token.special && !parse_special) continue;
    if (token.single_word && !stands_alone(text.substr(0, begin), text.substr(end))) continue;
    while (token.lstrip && begin > done) {
      const std::string_view last = last_character(text.substr(0, begin));
      if (!is_white_space(utf8_code_point(last))) break;
      begin -= last.size();
    }
    while (token.rstrip && end < text.size()) {
      const std::string_view next = first_character(text.substr(end));
      if (!is_white_space(utf8_code_point(next))) break;
      end += next.size();
    }
    if (done < begin) put(done, begin, -1);
    put(begin, end, token.id);
    done = end;
  }
  if (done < text.size()) put(done, text.size(), -1);
  return parts;
}

}  // namespace skald
