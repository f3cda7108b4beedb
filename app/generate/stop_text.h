// Stop strings in a text that arrives in pieces: exact wherever the borders of the pieces fall.
// feed() hands out what can no longer be part of a stop string, and nothing from the first
// character of a found one on. The string that is complete first is the one that counts, since
// nothing is computed after it; of those that are complete at the same place, the longest. Linear
// in text and strings. One StopText for one text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace skald {

class StopText {
 public:
  explicit StopText(std::vector<std::string> stops);  // an empty one is Error(Exit::Usage)

  std::string feed(std::string_view piece);  // empty once a stop string was found
  std::string flush();                       // what is held back; call it once, at the end

  bool found() const { return found_ != kNone; }
  const std::string& stop() const { return stops_[found_]; }  // the found one

 private:
  static constexpr size_t kNone = SIZE_MAX;

  // A beginning of some stop string, as in Aho and Corasick's automaton.
  struct Prefix {
    size_t length = 0;
    size_t shorter = 0;   // the longest other prefix that it ends with
    size_t stop = kNone;  // the longest stop string that it ends with
  };

  size_t longer(size_t prefix, char byte) const;  // by one byte; kNone: there is none
  size_t next(size_t prefix, char byte) const;
  void add(size_t stop);
  void link();

  std::vector<std::string> stops_;
  std::vector<Prefix> prefixes_{{}};             // the empty one first
  std::unordered_map<size_t, size_t> children_;  // (prefix, byte) to prefix
  size_t at_ = 0;                                // the longest prefix that the text ends with
  std::string text_;                             // its last part: what was handed out, then
  size_t held_ = 0;                              // from here on what is held back
  size_t found_ = kNone;
};

}  // namespace skald
