// The names that were seen, 20 to 30 bytes each, whatever their length: an input may have millions
// of lines.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "app/jobs/earlier_results.h"

namespace skald {

class NameSet {
 public:
  bool insert(std::string_view name);  // false: it was there
  size_t size() const { return size_; }
  size_t bytes() const { return places_.capacity() * sizeof(NameHash); }

 private:
  bool put(const NameHash& hash);
  void grow();

  // A hash table with linear probing; zeros: a free place. No name has the hash of zeros.
  std::vector<NameHash> places_;
  size_t size_ = 0;
};

}  // namespace skald
