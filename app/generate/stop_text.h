// Finds stop strings in a text that arrives in pieces, wherever the pieces are cut. feed() returns
// the characters that can no longer be part of a stop string. Once a stop string is found, its
// first character and everything behind are never returned. The stop string that is complete first
// counts; of several that are complete at the same place, the longest. Linear in text and strings.
// One StopText is for one text, or for several texts one after the other.
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
  explicit StopText(std::vector<std::string> stops);  // an empty string is an Error(Exit::Usage)

  std::string feed(std::string_view piece);  // empty once a stop string was found
  std::string flush();                       // the rest; to be called once, at the end of a text
  void restart();                            // another text begins; !found()

  bool found() const { return found_ != kNone; }
  const std::string& stop() const { return stops_[found_]; }  // the one that was found

 private:
  static constexpr size_t kNone = SIZE_MAX;

  // The beginning of a stop string: a state of Aho and Corasick's automaton.
  struct Prefix {
    size_t length = 0;
    size_t shorter = 0;   // the longest other prefix that this one ends with
    size_t stop = kNone;  // the longest stop string that this one ends with
  };

  size_t longer(size_t prefix, char byte) const;  // the prefix with one byte more, or kNone
  size_t next(size_t prefix, char byte) const;
  void add(size_t stop);
  void link();

  std::vector<std::string> stops_;
  std::vector<Prefix> prefixes_{{}};             // the empty prefix first
  std::unordered_map<size_t, size_t> children_;  // (prefix, byte) to prefix
  size_t at_ = 0;                                // the longest prefix that the text ends with
  std::string text_;                             // the last part of the text
  size_t returned_bytes_ = 0;                    // text_ from here on was not returned yet
  size_t found_ = kNone;
};

}  // namespace skald
