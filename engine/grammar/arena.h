// Arrays that stay where they are while others are added: a growing vector would be copied, which
// takes milliseconds once it has megabytes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

namespace skald::grammar {

template <class T>
class Arena {
 public:
  // A new array, with values of before clear() or none.
  T* add(size_t count) {
    while (at_ < chunks_.size() && chunks_[at_].size - used_ < count) {
      ++at_;
      used_ = 0;
    }
    if (at_ == chunks_.size()) {
      const size_t size = std::max(count, kChunk);
      chunks_.push_back({std::make_unique_for_overwrite<T[]>(size), size});
    }
    T* array = chunks_[at_].values.get() + used_;
    used_ += count;
    size_ += count;
    return array;
  }
  // Forgets all arrays and keeps their memory.
  void clear() { at_ = used_ = size_ = 0; }
  size_t size() const { return size_; }  // of all arrays

 private:
  static constexpr size_t kChunk = size_t{1} << 14;
  struct Chunk {
    std::unique_ptr<T[]> values;
    size_t size;
  };
  std::vector<Chunk> chunks_;
  size_t at_ = 0, used_ = 0, size_ = 0;  // the chunk at hand, and how much of it is used
};

}  // namespace skald::grammar
