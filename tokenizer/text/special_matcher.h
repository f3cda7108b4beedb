// Finds special tokens in a text: the leftmost match, and of several the longest. Call add() for
// all tokens, then finish(); after that any number of threads may call find(). The token texts must
// outlive the matcher.
#pragma once

#include <bitset>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace skald {

class SpecialMatcher {
 public:
  struct Match {
    size_t at, length;  // id -1: no match, and `at` is the end of the text
    int32_t id;
  };

  void add(std::string_view text, int32_t id);  // first of equal texts counts; "" never matches
  void finish();
  Match find(std::string_view text) const;

 private:
  std::vector<std::pair<std::string_view, int32_t>> entries_;  // sorted by text
  std::bitset<256> first_bytes_;
};

}  // namespace skald
