// A place in an answer whose calls are read. What a format writes is found also where the model
// wrote other white space, or none.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace skald {

inline constexpr std::string_view kCallSpace = " \t\r\n";

class CallCursor {
 public:
  explicit CallCursor(std::string_view text, size_t at = 0) : text_(text), at_(at) {}

  size_t at() const { return at_; }
  bool done() const { return at_ >= text_.size(); }
  std::string_view rest() const { return text_.substr(at_); }
  void skip(size_t bytes) { at_ += bytes; }
  void skip_space() { at_ = std::min(text_.find_first_not_of(kCallSpace, at_), text_.size()); }

  // Takes `words`, whose white space may be there or not. False: nothing is taken.
  bool take(std::string_view words) { return take(words, false); }
  // Also takes the begin of `words` where the text ends in them: models often leave out the last
  // mark.
  bool take_end(std::string_view words) { return take(words, true); }
  bool next(std::string_view words) const { return CallCursor(*this).take(words); }

  // Takes the text before the next `mark`, and the mark. False: there is none.
  bool take_until(std::string_view mark, std::string_view& before) {
    const size_t found = text_.find(mark, at_);
    if (found == std::string_view::npos) return false;
    before = text_.substr(at_, found - at_);
    at_ = found + mark.size();
    return true;
  }

  // Takes the characters of a function's name.
  std::string_view take_name() {
    const size_t end = std::min(text_.find_first_of(" \t\r\n<>\"[{`", at_), text_.size());
    const std::string_view name = text_.substr(at_, end - at_);
    at_ = end;
    return name;
  }

 private:
  bool take(std::string_view words, bool may_end) {
    CallCursor trial = *this;
    for (size_t i = 0; i < words.size();) {
      const bool space = kCallSpace.find(words[i]) != std::string_view::npos;
      if (space || i == 0) trial.skip_space();
      if (space) {
        ++i;
        continue;
      }
      if (trial.done()) {
        if (!may_end) return false;
        break;
      }
      if (trial.text_[trial.at_] != words[i]) {
        // White space may stand between two marks that the format writes side by side.
        if (words[i] != '<' || kCallSpace.find(trial.text_[trial.at_]) == std::string_view::npos) {
          return false;
        }
        trial.skip_space();
        continue;
      }
      ++trial.at_;
      ++i;
    }
    *this = trial;
    return true;
  }

  std::string_view text_;
  size_t at_;
};

}  // namespace skald
