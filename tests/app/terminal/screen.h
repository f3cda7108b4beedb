// What a terminal shows: enough of one to check lines that are wrapped, wiped and written again.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "app/terminal/word_wrap.h"
#include "tokenizer/text/utf8.h"

namespace skald::test {

// Knows \n, \r, tabs, ESC[nD (left), ESC[nA (up), ESC[K and ESC[J (wipe); ignores ESC[…m and
// ESC[?…. Wraps at its last column, as terminals do: the cursor waits there for the next character.
class Screen {
 public:
  explicit Screen(int columns) : columns_(columns) {}

  void write(std::string_view bytes) {
    while (!bytes.empty()) {
      if (bytes[0] == '\x1b') {
        bytes.remove_prefix(escape(bytes));
        continue;
      }
      const size_t length = std::max<size_t>(utf8_length(bytes), 1);
      put(bytes.substr(0, length));
      bytes.remove_prefix(length);
    }
  }

  // The lines without the spaces at their ends.
  std::string text() const {
    std::string out;
    for (const auto& line : lines_) {
      std::string row;
      for (const std::string& cell : line) row += cell;
      row.erase(row.find_last_not_of(' ') + 1);
      out += row + "\n";
    }
    return out;
  }

 private:
  std::vector<std::string>& line() {
    while (lines_.size() <= row_) lines_.emplace_back();
    return lines_[row_];
  }

  void put(std::string_view character) {
    if (character == "\n") {
      ++row_;
      column_ = 0;
      line();
    } else if (character == "\r") {
      column_ = 0;
    } else if (character == "\t") {
      column_ = std::min(column_ / 8 * 8 + 8, columns_ - 1);
    } else {
      const int width = text_columns(character);
      if (column_ + width > columns_) put("\n");
      auto& cells = line();
      if (cells.size() < static_cast<size_t>(column_ + width)) {
        cells.resize(static_cast<size_t>(column_ + width), " ");
      }
      cells[static_cast<size_t>(column_)] = character;
      if (width == 2) cells[static_cast<size_t>(column_) + 1].clear();
      column_ += width;
    }
  }

  // Returns the length of the sequence.
  size_t escape(std::string_view bytes) {
    size_t end = 2;
    while (end < bytes.size() && (bytes[end] < '@' || bytes[end] > '~')) ++end;
    const std::string_view numbers = bytes.substr(2, end - 2);
    const int count = numbers.empty() || numbers[0] == '?' ? 1 : std::stoi(std::string(numbers));
    const int at = std::min(column_, columns_ - 1);  // past the last column, the cursor is on it
    switch (end < bytes.size() ? bytes[end] : ' ') {
      case 'D':
        column_ = std::max(at - count, 0);
        break;
      case 'C':
        column_ = std::min(at + count, columns_ - 1);
        break;
      case 'A':
        row_ -= std::min(row_, static_cast<size_t>(count));
        break;
      case 'J':
        lines_.resize(std::min(lines_.size(), row_ + 1));
        [[fallthrough]];
      case 'K':
        if (line().size() > static_cast<size_t>(at)) line().resize(static_cast<size_t>(at));
        break;
      default:
        break;
    }
    return std::min(end + 1, bytes.size());
  }

  int columns_;
  std::vector<std::vector<std::string>> lines_{1};
  size_t row_ = 0;
  int column_ = 0;
};

}  // namespace skald::test
