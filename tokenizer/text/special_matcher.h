// Finds texts of special tokens in a text: the leftmost, and of those the longest. add() all, then
// finish(); find() may then be called by any number of threads. The texts must outlive the matcher.
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
    size_t at, length;
    int32_t id;  // -1: there is none, and `at` is the end of the text
  };

  void add(std::string_view text, int32_t id);  // of equal texts the first counts; "" never matches
  void finish();
  Match find(std::string_view text) const;

 private:
  std::vector<std::pair<std::string_view, int32_t>> entries_;  // sorted by text
  std::bitset<256> first_bytes_;
};

}  // namespace skald
