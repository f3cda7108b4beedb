// Finds cache pages of earlier prompts by their tokens, so that a prompt with the same beginning
// reuses the pages instead of computing them. The index is an owner of each page: a page outlives
// the sequence that filled it, until its room is needed. The PagePool must outlive the index. Not
// thread-safe. Pages do not hold recurrent states, so for models with such states the index stays
// empty.
#pragma once

#include <array>
#include <cstdint>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/memory/kv_pages.h"

namespace skald {

// One hash for each whole page of a prompt; each covers the page, all pages before it, and the
// adapter that changes the model.
std::vector<uint64_t> page_hashes(std::span<const int32_t> tokens, int adapter = 0);

class PrefixIndex {
 public:
  explicit PrefixIndex(PagePool& pool) : pool_(pool) {}
  ~PrefixIndex();
  PrefixIndex(const PrefixIndex&) = delete;
  PrefixIndex& operator=(const PrefixIndex&) = delete;

  // A new sequence with the longest known prefix of `tokens`, of at most `most` whole pages that
  // the adapter has computed. `hashes` is page_hashes(tokens, adapter).
  Sequence share(std::span<const int32_t> tokens, std::span<const uint64_t> hashes, int64_t most,
                 int adapter = 0);

  // Adds the first `pages` whole pages of a sequence that holds `tokens`.
  void insert(std::span<const int32_t> tokens, std::span<const uint64_t> hashes, int64_t pages,
              const Sequence& sequence);

  // Frees the least recently used page without other owners. Returns false if every page has
  // another owner.
  bool release_one();

  void clear();  // gives up all pages, even those with other owners

  int64_t idle_pages() const;  // about how many pages repeated release_one() would free
  int64_t pages() const { return static_cast<int64_t>(nodes_.size()); }

 private:
  // A page and its predecessor: the known prompts form a tree.
  struct Node {
    uint64_t before = 0;  // hash of the preceding page; 0: none
    std::array<int32_t, kPageTokens> tokens;
    int32_t page = 0;
    int adapter = 0;
    int children = 0;
    uint64_t used = 0;  // clock_ of the last use
  };

  Node* find(uint64_t hash, uint64_t before, std::span<const int32_t> page_tokens, int adapter);
  void touch(uint64_t hash, Node& node);

  PagePool& pool_;
  uint64_t clock_ = 0;
  std::unordered_map<uint64_t, Node> nodes_;        // by hash
  std::set<std::pair<uint64_t, uint64_t>> leaves_;  // (last use, hash) of pages without children
};

}  // namespace skald
