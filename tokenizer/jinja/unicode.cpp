#include "tokenizer/jinja/unicode.h"

#include <utf8proc.h>

#include <algorithm>

#include "tokenizer/text/utf8.h"

namespace skald::jinja {
namespace {

bool continues(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) == 0x80; }

size_t length_at(std::string_view s, size_t at) {
  size_t end = at + 1;
  while (end < s.size() && continues(s[end])) ++end;
  return end - at;
}

utf8proc_category_t category(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

bool is_cased_upper(char32_t c) { return utf8proc_isupper(static_cast<utf8proc_int32_t>(c)); }
bool is_cased_lower(char32_t c) { return utf8proc_islower(static_cast<utf8proc_int32_t>(c)); }

void append_upper(std::string& out, char32_t c) {
  if (c == 0xdf) {
    out += "SS";
  } else {
    append_character(out, static_cast<char32_t>(utf8proc_toupper(static_cast<int32_t>(c))));
  }
}

void append_title(std::string& out, char32_t c) {
  if (c == 0xdf) {
    out += "Ss";
  } else {
    append_character(out, static_cast<char32_t>(utf8proc_totitle(static_cast<int32_t>(c))));
  }
}

void append_lower(std::string& out, char32_t c) {
  append_character(out, static_cast<char32_t>(utf8proc_tolower(static_cast<int32_t>(c))));
}

template <class Each>
void for_characters(std::string_view s, const Each& each) {
  while (!s.empty()) {
    each(first_character(s));
    s.remove_prefix(length_at(s, 0));
  }
}

bool is_line_end(char32_t c) {
  return (c >= 0x0a && c <= 0x0d) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 ||
         c == 0x2029;
}

bool is_stripped(std::string_view character, const std::string* chars) {
  if (!chars) return is_space(first_character(character));
  return chars->find(character) != std::string::npos;
}

std::string_view last_of(std::string_view s) {
  size_t at = s.size() - 1;
  while (at > 0 && continues(s[at])) --at;
  return s.substr(at);
}

}  // namespace

size_t characters(std::string_view s) {
  return static_cast<size_t>(
      std::count_if(s.begin(), s.end(), [](char c) { return !continues(c); }));
}

size_t byte_of(std::string_view s, size_t n) {
  size_t at = 0;
  for (; n > 0 && at < s.size(); --n) at += length_at(s, at);
  return at;
}

std::vector<std::string_view> split_characters(std::string_view s) {
  std::vector<std::string_view> all;
  for (size_t at = 0; at < s.size(); at += all.back().size()) {
    all.push_back(s.substr(at, length_at(s, at)));
  }
  return all;
}

char32_t first_character(std::string_view s) {
  utf8proc_int32_t c = 0;
  utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(s.data()),
                   static_cast<utf8proc_ssize_t>(s.size()), &c);
  return c < 0 ? 0xfffd : static_cast<char32_t>(c);
}

void append_character(std::string& s, char32_t c) {
  utf8proc_uint8_t bytes[4];
  const auto count = utf8proc_encode_char(static_cast<utf8proc_int32_t>(c), bytes);
  s.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(count));
}

bool is_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0d) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f ||
         c == 0x205f || c == 0x3000;
}

std::string_view strip_left(std::string_view s, const std::string* chars) {
  while (!s.empty()) {
    const size_t length = length_at(s, 0);
    if (!is_stripped(s.substr(0, length), chars)) break;
    s.remove_prefix(length);
  }
  return s;
}

std::string_view strip_right(std::string_view s, const std::string* chars) {
  while (!s.empty()) {
    const std::string_view last = last_of(s);
    if (!is_stripped(last, chars)) break;
    s.remove_suffix(last.size());
  }
  return s;
}

std::string_view strip(std::string_view s, const std::string* chars) {
  return strip_right(strip_left(s, chars), chars);
}

std::vector<std::string_view> split(std::string_view s, const std::string* separator,
                                    int64_t most) {
  std::vector<std::string_view> parts;
  const auto more = [&] { return most < 0 || static_cast<int64_t>(parts.size()) < most; };
  if (separator) {
    for (size_t at; more() && (at = s.find(*separator)) != std::string_view::npos;) {
      parts.push_back(s.substr(0, at));
      s.remove_prefix(at + separator->size());
    }
    parts.push_back(s);
    return parts;
  }
  for (s = strip_left(s); !s.empty(); s = strip_left(s)) {
    if (!more()) {
      parts.push_back(s);
      break;
    }
    size_t end = 0;
    while (end < s.size() && !is_space(first_character(s.substr(end)))) end += length_at(s, end);
    parts.push_back(s.substr(0, end));
    s.remove_prefix(end);
  }
  return parts;
}

std::vector<std::string_view> split_from_right(std::string_view s, const std::string* separator,
                                               int64_t most) {
  if (most < 0) return split(s, separator, most);
  std::vector<std::string_view> parts;
  const auto more = [&] { return static_cast<int64_t>(parts.size()) < most; };
  if (separator) {
    for (size_t at; more() && (at = s.rfind(*separator)) != std::string_view::npos;) {
      parts.push_back(s.substr(at + separator->size()));
      s = s.substr(0, at);
    }
    parts.push_back(s);
  } else {
    for (s = strip_right(s); !s.empty(); s = strip_right(s)) {
      if (!more()) {
        parts.push_back(s);
        break;
      }
      size_t begin = s.size();
      while (begin > 0) {
        const std::string_view last = last_of(s.substr(0, begin));
        if (is_space(first_character(last))) break;
        begin -= last.size();
      }
      parts.push_back(s.substr(begin));
      s = s.substr(0, begin);
    }
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<std::string_view> split_lines(std::string_view s, bool keep_ends) {
  std::vector<std::string_view> lines;
  size_t begin = 0;
  for (size_t at = 0; at < s.size();) {
    const size_t length = length_at(s, at);
    if (!is_line_end(first_character(s.substr(at)))) {
      at += length;
      continue;
    }
    const size_t end = at + (s.substr(at).starts_with("\r\n") ? 2 : length);
    lines.push_back(s.substr(begin, (keep_ends ? end : at) - begin));
    at = begin = end;
  }
  if (begin < s.size()) lines.push_back(s.substr(begin));
  return lines;
}

std::string lower(std::string_view s) {
  std::string out;
  for_characters(s, [&](char32_t c) { append_lower(out, c); });
  return out;
}

std::string upper(std::string_view s) {
  std::string out;
  for_characters(s, [&](char32_t c) { append_upper(out, c); });
  return out;
}

std::string capitalize(std::string_view s) {
  std::string out;
  for_characters(s, [&](char32_t c) { out.empty() ? append_title(out, c) : append_lower(out, c); });
  return out;
}

std::string title(std::string_view s) {
  std::string out;
  bool inside = false;
  for_characters(s, [&](char32_t c) {
    inside ? append_lower(out, c) : append_title(out, c);
    inside = is_cased_upper(c) || is_cased_lower(c) || category(c) == UTF8PROC_CATEGORY_LT;
  });
  return out;
}

std::string swap_case(std::string_view s) {
  std::string out;
  for_characters(
      s, [&](char32_t c) { is_cased_upper(c) ? append_lower(out, c) : append_upper(out, c); });
  return out;
}

bool all_are(std::string_view s, CharacterClass what) {
  const auto alpha = [](char32_t c) {
    const auto kind = category(c);
    return kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_LO;
  };
  const auto digit = [](char32_t c) { return category(c) == UTF8PROC_CATEGORY_ND; };
  const auto number = [](char32_t c) {
    const auto kind = category(c);
    return kind >= UTF8PROC_CATEGORY_ND && kind <= UTF8PROC_CATEGORY_NO;
  };
  bool all = !s.empty();
  for_characters(s, [&](char32_t c) {
    switch (what) {
      case CharacterClass::Alpha:
        all &= alpha(c);
        break;
      case CharacterClass::Digit:
        all &= digit(c);
        break;
      case CharacterClass::Alnum:
        all &= alpha(c) || number(c);
        break;
      case CharacterClass::Space:
        all &= is_space(c);
        break;
    }
  });
  return all;
}

bool is_lower(std::string_view s) {
  bool any = false, upper = false;
  for_characters(s, [&](char32_t c) {
    any |= is_cased_lower(c);
    upper |= is_cased_upper(c);
  });
  return any && !upper;
}

bool is_upper(std::string_view s) {
  bool any = false, lower = false;
  for_characters(s, [&](char32_t c) {
    any |= is_cased_upper(c);
    lower |= is_cased_lower(c);
  });
  return any && !lower;
}

bool is_printable(char32_t c) {
  if (c == ' ') return true;
  switch (category(c)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return false;
    default:
      return true;
  }
}

}  // namespace skald::jinja
