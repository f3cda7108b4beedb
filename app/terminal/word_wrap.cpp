#include "app/terminal/word_wrap.h"

#include <algorithm>
#include <cwchar>

#include "tokenizer/text/utf8.h"

namespace skald {
namespace {

constexpr int kTab = 8;

// The first character of `text`; a byte that is no UTF-8 stands for itself.
std::string_view first_character(std::string_view text) {
  return text.substr(0, std::max<size_t>(utf8_length(text), 1));
}

int character_columns(std::string_view character) {
  if (utf8_length(character) == 0) return 1;
  const int width = ::wcwidth(static_cast<wchar_t>(utf8_code_point(character)));
  return width < 0 ? 1 : width;  // the locale does not know the character
}

}  // namespace

// Replaces the spaces before the word by a line's end, as far as they are not on the screen yet.
void WordWrap::break_line(std::string& out) {
  const size_t unwritten = word_.size() - word_written_;
  std::string rest = out.substr(out.size() - unwritten);
  out.resize(out.size() - unwritten);
  if (width_written_ > 0) {
    out += "\x1b[" + std::to_string(width_written_) + "D\x1b[K";
    rest = word_;
    word_written_ = 0;
    width_written_ = 0;
  } else {
    while (out.ends_with(' ')) out.pop_back();
  }
  out += "\n" + rest;
  column_ = word_width_;
}

void WordWrap::put(std::string_view character, int width, int columns, std::string& out) {
  if (break_pending_) out += "\n";
  if (break_pending_) column_ = 0;
  break_pending_ = false;
  out += character;
  word_ += character;
  word_width_ += width;
  column_ += width;
  if (column_ <= columns || long_word_) return;
  if (word_width_ > columns) {
    long_word_ = true;  // it began in the first column, or is moved there no more
  } else {
    break_line(out);
  }
}

std::string WordWrap::next(std::string_view part, int columns) {
  const int most = std::max(columns - 1, 1);
  if (long_word_) column_ %= std::max(columns, 1);
  word_written_ = word_.size();
  width_written_ = word_width_;
  std::string out;
  const auto end_word = [&] {
    word_.clear();
    word_width_ = width_written_ = 0;
    word_written_ = 0;
    if (long_word_) column_ %= std::max(columns, 1);
    long_word_ = false;
  };
  while (!part.empty()) {
    const std::string_view character = first_character(part);
    part.remove_prefix(character.size());
    if (character == "\n") {
      end_word();
      out += "\n";
      column_ = 0;
      break_pending_ = false;
    } else if (character == " " || character == "\t") {
      end_word();
      const int width = character == " " ? 1 : kTab - column_ % kTab;
      break_pending_ |= column_ + width > most;
      if (break_pending_) continue;
      out += character;
      column_ += width;
    } else {
      const int width = character_columns(character);
      const bool wide = width > 1;  // Chinese, Japanese: a line may end beside any character
      if (wide) end_word();
      put(character, width, most, out);
      if (wide) end_word();
    }
  }
  return out;
}

std::string wrapped(std::string_view text, int columns) { return WordWrap().next(text, columns); }

int text_columns(std::string_view text) {
  int columns = 0;
  while (!text.empty()) {
    const std::string_view character = first_character(text);
    columns += character_columns(character);
    text.remove_prefix(character.size());
  }
  return columns;
}

std::string fitted(std::string_view text, int columns) {
  if (text_columns(text) <= columns) return std::string(text);
  size_t end = 0;
  for (int used = 0; end < text.size();) {
    const std::string_view character = first_character(text.substr(end));
    used += character_columns(character);
    if (used > columns) break;
    end += character.size();
  }
  const std::string_view kept = text.substr(0, end);
  // A comma at the very end of `kept` counts as well: what follows it is cut.
  const size_t comma = text.substr(0, end + 1).rfind(',');
  return std::string(comma == std::string_view::npos || comma == 0 ? kept : text.substr(0, comma));
}

}  // namespace skald
