// The merges of a BPE tokenizer: which pair of neighbouring tokens becomes which token; lower ranks
// merge first. Merges is filled once and may then be read by any number of threads. A Merger holds
// the working memory of one thread and borrows the Merges.
#pragma once

#include <cstdint>
#include <functional>
#include <queue>
#include <vector>

namespace skald {

class Merges {
 public:
  struct Merge {
    uint32_t rank = kNone;
    int32_t id = -1;
  };
  static constexpr uint32_t kNone = UINT32_MAX;

  // If a pair is added twice, the last rank counts. Ranks start at 0; a Merger uses memory
  // proportional to the highest rank.
  void add(int32_t left, int32_t right, Merge merge);
  void reserve(size_t count);

  Merge find(int32_t left, int32_t right) const {
    for (size_t at = slot(left, right);; at = (at + 1) & mask_) {
      const Entry& entry = table_[at];
      if (entry.merge.rank == kNone) return {};
      if (entry.left == left && entry.right == right) return entry.merge;
    }
  }
  uint32_t ranks() const { return ranks_; }  // one more than the highest rank

 private:
  struct Entry {
    int32_t left = -1, right = -1;
    Merge merge;
  };

  size_t slot(int32_t left, int32_t right) const {
    const uint64_t key =
        static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
    return static_cast<size_t>((key * 0x9E3779B97F4A7C15u) >> 20) & mask_;
  }
  void resize(size_t size);

  // The size is a power of two; at most two thirds are used
  std::vector<Entry> table_ = std::vector<Entry>(16);
  size_t mask_ = 15, used_ = 0;
  uint32_t ranks_ = 0;
};

template <class Value>
using LowestFirst = std::priority_queue<Value, std::vector<Value>, std::greater<>>;

// Repeatedly merges the pair of the lowest rank; of equal ranks the leftmost pair. The time is
// proportional to the number of tokens. A short list is searched for each merge. A long list is
// processed rank by rank from left to right, which uses caches better than one priority queue.
class Merger {
 public:
  explicit Merger(const Merges& merges) : merges_(merges) {}
  void merge(std::vector<int32_t>& tokens);  // in place; at most 2^31 - 1 tokens

 private:
  // The places where pairs of one rank begin, taken lowest first. Places are nearly always added in
  // ascending order; only the others go into a heap.
  class Places {
   public:
    void add(int32_t place);
    int32_t take();
    bool empty() const { return next_ == ascending_.size() && others_.empty(); }
    void clear();

   private:
    std::vector<int32_t> ascending_;
    size_t next_ = 0;
    LowestFirst<int32_t> others_;
  };

  void merge_short(std::vector<int32_t>& tokens) const;
  void merge_long(std::vector<int32_t>& tokens);
  void add(int32_t left, const std::vector<int32_t>& ids);
  void merge_at(int32_t left, uint32_t rank, std::vector<int32_t>& ids);

  const Merges& merges_;
  std::vector<int32_t> before_, after_;  // neighbours of each token; -1: none
  LowestFirst<uint32_t> ranks_;          // ranks that have places
  std::vector<int32_t> places_of_rank_;  // index into places_, or -1
  std::vector<Places> places_;
  std::vector<int32_t> free_;  // unused indices into places_
};

}  // namespace skald
