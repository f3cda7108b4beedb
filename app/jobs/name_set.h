// The names that were seen, 20 to 30 bytes each, whatever their length: an input may have millions
// of lines.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>
#include <vector>

#include "app/jobs/earlier_results.h"

namespace skald {

class NameSet {
 public:
  bool insert(std::string_view name);  // false: it was there
  size_t size() const;
  size_t bytes() const;

 private:
  // A hash table with linear probing; zeros: a free place. No name has the hash of zeros.
  class Table {
   public:
    bool insert(const NameHash& hash);
    size_t size() const { return size_; }
    size_t bytes() const { return places_.capacity() * sizeof(NameHash); }

   private:
    bool put(const NameHash& hash);
    void grow();

    std::vector<NameHash> places_;
    size_t size_ = 0;
  };

  // Many small tables: one of them grows at a time, so that memory never holds all names twice.
  std::array<Table, 64> tables_;
};

}  // namespace skald
