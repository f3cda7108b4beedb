// The lines that a person typed, in this and in earlier dialogues: a text file of one entry a line,
// in which only a new line and a backslash are escaped. Entries are added to the file at once, so
// that dialogues side by side lose nothing. A file that cannot be used is no reason to stop:
// problem() says what is wrong, once.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace skald {

class LineHistory {
 public:
  static constexpr size_t kMostEntries = 1000;  // kept; the file is cut to them when it has twice

  explicit LineHistory(std::filesystem::path file);  // empty: kept nowhere

  const std::vector<std::string>& entries() const { return entries_; }  // oldest first
  const std::string& problem() const { return problem_; }               // empty: none

  void add(const std::string& entry);  // not the same twice in a row

 private:
  void read();

  std::filesystem::path file_;
  std::vector<std::string> entries_;
  std::string problem_;
};

// $XDG_STATE_HOME/skald/history, or ~/.local/state/skald/history; empty: there is no home.
std::filesystem::path default_history_file();

}  // namespace skald
