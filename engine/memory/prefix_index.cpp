#include "engine/memory/prefix_index.h"

#include <algorithm>

#include "engine/base/error.h"

namespace skald {
namespace {

std::span<const int32_t> page_of(std::span<const int32_t> tokens, size_t index) {
  return tokens.subspan(index * kPageTokens, kPageTokens);
}

}  // namespace

std::vector<uint64_t> page_hashes(std::span<const int32_t> tokens, int adapter) {
  std::vector<uint64_t> hashes(tokens.size() / kPageTokens);
  uint64_t hash = 0x9E3779B97F4A7C15u ^ (static_cast<uint64_t>(adapter) << 32);
  for (size_t i = 0; i < hashes.size(); ++i) {
    for (const int32_t token : page_of(tokens, i)) {
      hash = (hash ^ static_cast<uint32_t>(token)) * 0xD6E8FEB86659FD93u;
      hash ^= hash >> 32;
    }
    hashes[i] = hash | 1;  // 0 means "no page"
  }
  return hashes;
}

PrefixIndex::~PrefixIndex() { clear(); }

void PrefixIndex::clear() {
  for (const auto& [hash, node] : nodes_) pool_.release(node.page);
  nodes_.clear();
  leaves_.clear();
}

// Different prefixes may have the same hash, so the tokens and the adapter are compared too.
PrefixIndex::Node* PrefixIndex::find(uint64_t hash, uint64_t before,
                                     std::span<const int32_t> page_tokens, int adapter) {
  const auto found = nodes_.find(hash);
  if (found == nodes_.end()) return nullptr;
  Node& node = found->second;
  const bool same = node.before == before && node.adapter == adapter &&
                    std::equal(page_tokens.begin(), page_tokens.end(), node.tokens.begin());
  return same ? &node : nullptr;
}

void PrefixIndex::touch(uint64_t hash, Node& node) {
  if (node.children == 0) {
    leaves_.erase({node.used, hash});
    leaves_.insert({clock_, hash});
  }
  node.used = clock_;
}

Sequence PrefixIndex::share(std::span<const int32_t> tokens, std::span<const uint64_t> hashes,
                            int64_t most, int adapter) {
  ++clock_;
  if (pool_.has_states()) return Sequence(pool_, adapter);
  std::vector<int32_t> pages;
  const size_t end = std::min(hashes.size(), static_cast<size_t>(most));
  for (size_t i = 0; i < end; ++i) {
    Node* node = find(hashes[i], i == 0 ? 0 : hashes[i - 1], page_of(tokens, i), adapter);
    if (!node) break;
    touch(hashes[i], *node);
    pages.push_back(node->page);
  }
  return Sequence(pool_, pages, adapter);
}

void PrefixIndex::insert(std::span<const int32_t> tokens, std::span<const uint64_t> hashes,
                         int64_t pages, const Sequence& sequence) {
  check(pages * kPageTokens <= sequence.length(), "only computed pages are remembered");
  if (pool_.has_states()) return;
  ++clock_;
  for (size_t i = 0; i < static_cast<size_t>(pages); ++i) {
    const uint64_t before = i == 0 ? 0 : hashes[i - 1];
    if (Node* known = find(hashes[i], before, page_of(tokens, i), sequence.adapter())) {
      touch(hashes[i], *known);
      continue;
    }
    Node node{.before = before,
              .page = sequence.pages()[i],
              .adapter = sequence.adapter(),
              .used = clock_};
    std::copy_n(page_of(tokens, i).begin(), kPageTokens, node.tokens.begin());
    if (!nodes_.emplace(hashes[i], node).second) return;  // the hash belongs to another prefix
    pool_.share(node.page);
    leaves_.insert({clock_, hashes[i]});
    if (before == 0) continue;
    Node& parent = nodes_.at(before);
    if (parent.children++ == 0) leaves_.erase({parent.used, before});
  }
}

bool PrefixIndex::release_one() {
  for (const auto& leaf : leaves_) {
    const auto [used, hash] = leaf;  // a copy, because the entry is erased
    const Node node = nodes_.at(hash);
    if (pool_.shared(node.page)) continue;
    leaves_.erase({used, hash});
    nodes_.erase(hash);
    pool_.release(node.page);
    if (node.before == 0) return true;
    Node& parent = nodes_.at(node.before);
    if (--parent.children == 0) leaves_.insert({parent.used, node.before});
    return true;
  }
  return false;
}

// The count is approximate. If two sequences computed the same page side by side, each holds a copy
// and the index knows only one. A later page of the other sequence then keeps its predecessor in
// the index, although that predecessor counts as idle.
int64_t PrefixIndex::idle_pages() const {
  return std::count_if(nodes_.begin(), nodes_.end(),
                       [&](const auto& entry) { return !pool_.shared(entry.second.page); });
}

}  // namespace skald
