// The lines that a person typed, in this and in earlier chats: a text file with one entry on each
// line, in which newlines and backslashes are escaped. Each entry is added to the file at once, so
// that chats side by side lose nothing. A file that cannot be used does not end the chat; problem()
// says what is wrong.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace skald {

class LineHistory {
 public:
  static constexpr size_t kMostEntries = 1000;  // a file of twice as many is cut to this many

  explicit LineHistory(std::filesystem::path file);  // empty: no file

  const std::vector<std::string>& entries() const { return entries_; }  // oldest first
  const std::string& problem() const { return problem_; }               // or ""

  void add(const std::string& entry);  // does nothing if the last entry is the same

 private:
  void read();

  std::filesystem::path file_;
  std::vector<std::string> entries_;
  std::string problem_;
};

// $XDG_STATE_HOME/skald/history, or ~/.local/state/skald/history; empty without a home folder.
std::filesystem::path default_history_file();

}  // namespace skald
