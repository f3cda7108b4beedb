// Breaks lines between words for a terminal, while a text arrives in parts. A word that turns out
// too long for its line is wiped from the screen and written again on the next line, so that every
// part is shown at once. A word longer than a line stays as it is: the terminal breaks it.
#pragma once

#include <string>
#include <string_view>

namespace skald {

class WordWrap {
 public:
  // What the terminal gets for the next part of a text. `columns` is its width now. The last column
  // stays empty, where terminals differ about the place of the cursor.
  std::string next(std::string_view part, int columns);

  void line_ended() { *this = WordWrap(); }  // something else has ended the line

 private:
  void put(std::string_view character, int width, int columns, std::string& out);
  void break_line(std::string& out);

  int column_ = 0;              // of the cursor
  std::string word_;            // since the last space
  int word_width_ = 0;          // in columns
  size_t word_written_ = 0;     // bytes of the word that earlier parts have put on the screen
  int width_written_ = 0;       // the same in columns
  bool long_word_ = false;      // the word does not fit any line
  bool break_pending_ = false;  // a space came at the line's end
};

// A whole text with lines of at most `columns` - 1 columns.
std::string wrapped(std::string_view text, int columns);

// The columns that a text without control characters takes.
int text_columns(std::string_view text);

// The beginning of a one-line text that takes at most `columns`. Cuts at the last ", " if there is
// one, so that no number loses digits.
std::string fitted(std::string_view text, int columns);

}  // namespace skald
