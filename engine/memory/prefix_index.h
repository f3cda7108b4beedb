// Cache pages of prompts that were computed, found again by the tokens in them: a prompt that
// begins like an earlier one goes on from its pages. The index owns a share of each page, so that a
// page outlives the sequence that filled it, until somebody needs the room. The PagePool must
// outlive the index. Not thread-safe.
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

// A hash for each whole page of a prompt, over it and all pages before.
std::vector<uint64_t> page_hashes(std::span<const int32_t> tokens);

class PrefixIndex {
 public:
  explicit PrefixIndex(PagePool& pool) : pool_(pool) {}
  ~PrefixIndex();
  PrefixIndex(const PrefixIndex&) = delete;
  PrefixIndex& operator=(const PrefixIndex&) = delete;

  // The longest known beginning of `tokens`, of at most `most` whole pages. `hashes` are those of
  // the tokens.
  Sequence share(std::span<const int32_t> tokens, std::span<const uint64_t> hashes, int64_t most);

  // Remembers the first `pages` whole pages of a sequence that holds `tokens`.
  void insert(std::span<const int32_t> tokens, std::span<const uint64_t> hashes, int64_t pages,
              const Sequence& sequence);

  // Frees the page that was shared longest ago, of those that nobody else holds; false: all are
  // held.
  bool release_one();

  void clear();  // forgets all pages, whoever holds them

  int64_t idle_pages() const;  // that release_one() would free, one after the other
  int64_t pages() const { return static_cast<int64_t>(nodes_.size()); }

 private:
  // A page and the one before it: the known prompts are a tree.
  struct Node {
    uint64_t before = 0;  // hash of the page before; 0: none
    std::array<int32_t, kPageTokens> tokens;
    int32_t page = 0;
    int children = 0;
    uint64_t used = 0;
  };

  Node* find(uint64_t hash, uint64_t before, std::span<const int32_t> page_tokens);
  void touch(uint64_t hash, Node& node);

  PagePool& pool_;
  uint64_t clock_ = 0;
  std::unordered_map<uint64_t, Node> nodes_;        // by hash
  std::set<std::pair<uint64_t, uint64_t>> leaves_;  // (last use, hash) of pages without children
};

}  // namespace skald
