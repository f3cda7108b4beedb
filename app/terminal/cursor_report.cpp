#include "app/terminal/cursor_report.h"

#include <algorithm>
#include <charconv>
#include <cwchar>
#include <vector>

namespace skald {
namespace {

// The columns of each line of a text, as the line editor draws them.
std::vector<int> line_columns(std::wstring_view text) {
  std::vector<int> lines{0};
  for (const wchar_t c : text) {
    if (c == L'\n') {
      lines.push_back(0);
    } else {
      const int width = ::wcwidth(c);
      lines.back() += width < 0 ? 2 : width;  // control characters: ^A
    }
  }
  return lines;
}

int rows_before_end(const std::vector<int>& lines, int columns) {
  int rows = lines.back() / columns;
  for (size_t i = 0; i + 1 < lines.size(); ++i) {
    rows += std::max((lines[i] + columns - 1) / columns, 1);
  }
  return rows;
}

}  // namespace

std::optional<int> take_cursor_column(std::string& bytes) {
  for (size_t at = 0; (at = bytes.find("\x1b[", at)) != std::string::npos; at += 2) {
    const char* const end = bytes.data() + bytes.size();
    int row = 0, column = 0;
    const auto semicolon = std::from_chars(bytes.data() + at + 2, end, row);
    if (semicolon.ec != std::errc() || semicolon.ptr == end || *semicolon.ptr != ';') continue;
    const auto letter = std::from_chars(semicolon.ptr + 1, end, column);
    if (letter.ec != std::errc() || letter.ptr == end || *letter.ptr != 'R') continue;
    bytes.erase(at, static_cast<size_t>(letter.ptr + 1 - bytes.data()) - at);
    return column - 1;
  }
  return {};
}

int rows_above(std::wstring_view text, int before, int now, int column) {
  const std::vector<int> lines = line_columns(text);
  const int anew = rows_before_end(lines, now), kept = rows_before_end(lines, before);
  const bool is_anew = column == lines.back() % now;
  const bool is_kept = column == std::min(lines.back() % before, now - 1);
  if (is_anew == is_kept) return std::min(anew, kept);
  return is_anew ? anew : kept;
}

}  // namespace skald
