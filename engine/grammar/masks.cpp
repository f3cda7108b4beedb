#include "engine/grammar/masks.h"

#include <algorithm>

#include "engine/base/error.h"

namespace skald::grammar {
namespace {

// With more escapes than this, walking the whole trie is cheaper than caching them.
constexpr size_t kManyEscapes = 4096;

}  // namespace

Masks::Masks(std::shared_ptr<const Automaton> automaton,
             std::shared_ptr<const Vocabulary> vocabulary, MaskLimits limits)
    : vocabulary_(std::move(vocabulary)), stacks_(std::move(automaton)), limits_(limits) {}

void Masks::walk(const Trie& trie, uint32_t begin, uint32_t end, uint32_t depth, SetId set,
                 TokenMask& mask, std::vector<Escape>& escapes) {
  const std::array<uint8_t, 256>& byte_class = stacks_.automaton().byte_class();
  path_.resize(vocabulary_->longest_token() + 1);
  path_[depth] = set;
  for (uint32_t n = begin; n < end;) {
    const TrieNode& node = trie.nodes[n];
    const SetId next = stacks_.step_class(path_[node.depth - 1], byte_class[node.byte]);
    if (next == kDead) {
      n = node.end;
      continue;
    }
    path_[node.depth] = next;
    for (uint32_t t = node.first_token; t < trie.nodes[n + 1].first_token; ++t) {
      const auto id = static_cast<size_t>(trie.tokens[t]);
      mask[id / 64] |= uint64_t{1} << (id % 64);
    }
    if (stacks_.leaves_hole(next) && node.end > n + 1) {
      for (const Item& item : stacks_.items(next)) {
        if (item.state == kEnded && item.below != kBottom) escapes.push_back({item.below, n});
      }
    }
    n = stacks_.only_ended(next) ? node.end : n + 1;
  }
}

bool Masks::same_step(SetId set, int first, int last, int more, SetId& next, bool& known) {
  const std::array<uint8_t, 256>& byte_class = stacks_.automaton().byte_class();
  for (int byte = first; byte <= last; ++byte) {
    if (byte > first && byte_class[byte] == byte_class[byte - 1]) continue;
    const SetId to = stacks_.step_class(set, byte_class[byte]);
    if (more > 0 && to != kDead) {
      if (!same_step(to, 0x80, 0xBF, more - 1, next, known)) return false;
      continue;
    }
    if (known && to != next) return false;
    next = to;
    known = true;
  }
  return true;
}

bool Masks::plain_step(SetId set, SetId& next) {
  bool known = false;
  const auto same = [&](SetId from, int first, int last, int more) {
    return same_step(from, first, last, more, next, known);
  };
  const auto after = [&](int lead) { return stacks_.step(set, static_cast<uint8_t>(lead)); };
  const SetId e2 = after(0xE2), e280 = stacks_.step(e2, 0x80);
  // The well-formed UTF-8 of all plain characters by first byte. E2 80 A8 and A9 are line breaks
  // and therefore not plain.
  return same(set, 0x20, 0x21, 0) && same(set, 0x23, 0x5B, 0) && same(set, 0x5D, 0x7E, 0) &&
         same(set, 0xC2, 0xDF, 1) && same(after(0xE0), 0xA0, 0xBF, 1) && same(set, 0xE1, 0xE1, 2) &&
         same(e280, 0x80, 0xA7, 0) && same(e280, 0xAA, 0xBF, 0) && same(e2, 0x81, 0xBF, 1) &&
         same(set, 0xE3, 0xEC, 2) && same(after(0xED), 0x80, 0x9F, 1) && same(set, 0xEE, 0xEF, 2) &&
         same(after(0xF0), 0x90, 0xBF, 2) && same(set, 0xF1, 0xF3, 3) &&
         same(after(0xF4), 0x80, 0x8F, 2);
}

int Masks::plain_ahead(SetId set) {
  const int longest = vocabulary_->longest_plain();
  for (int n = 0; n < longest; ++n) {
    SetId next = kDead;
    if (!plain_step(set, next)) return -1;
    if (next == kDead) return n;
    if (stacks_.leaves_hole(next)) return -1;
    if (next == set) return longest;
    set = next;
  }
  return longest;
}

const Masks::Local& Masks::local(SetId set) {
  const auto known = locals_.find(set);
  if (known != locals_.end()) return known->second;
  Local local;
  local.mask.resize(vocabulary_->words());
  local.trie = &vocabulary_->all();
  const int plain = plain_ahead(set);
  if (plain > 0) {
    local.mask = vocabulary_->plain(plain);
    local.trie = &vocabulary_->not_plain();
  }
  walk(*local.trie, 0, static_cast<uint32_t>(local.trie->size()), 0, set, local.mask,
       local.escapes);
  if (local.escapes.size() > kManyEscapes) local = {};
  return locals_.emplace(set, std::move(local)).first->second;
}

std::span<const uint64_t> Masks::mask(SetId set) {
  const auto known = masks_.find(set);
  if (known != masks_.end()) return known->second;

  TokenMask mask(vocabulary_->words());
  std::vector<SetId> below;
  std::vector<Escape> escapes;
  std::set<Ahead> seen;
  std::vector<Ahead> todo;
  const auto go_on = [&](const Trie* trie, std::span<const Escape> at) {
    for (const Escape& escape : at) {
      const Ahead ahead{below[escape.hole - hole(0)], trie, escape.node};
      if (seen.insert(ahead).second) todo.push_back(ahead);
    }
  };
  const Trie& all = vocabulary_->all();
  const SetId over = stacks_.over_holes(set, vocabulary_->longest_token(), below);
  const Local* place = over == kDead ? nullptr : &local(over);
  if (place && place->trie) {
    mask = place->mask;
    go_on(place->trie, place->escapes);
  } else {
    walk(all, 0, static_cast<uint32_t>(all.size()), 0, set, mask, escapes);
  }
  while (!todo.empty()) {
    const Ahead ahead = todo.back();
    todo.pop_back();
    const TrieNode& node = ahead.trie->nodes[ahead.node];
    const SetId on = stacks_.over_holes(ahead.set, vocabulary_->longest_token(), below);
    escapes.clear();
    walk(*ahead.trie, ahead.node + 1, node.end, node.depth, on == kDead ? ahead.set : on, mask,
         escapes);
    go_on(ahead.trie, escapes);
  }
  if (stacks_.may_end(set)) {
    for (int32_t id : vocabulary_->ends()) {
      mask[static_cast<size_t>(id) / 64] |= uint64_t{1} << (id % 64);
    }
  }
  return masks_.emplace(set, std::move(mask)).first->second;
}

void Masks::tidy() {
  const size_t mask_bytes = 8 * vocabulary_->words() + 64;
  if ((masks_.size() + locals_.size()) * mask_bytes > limits_.mask_bytes) {
    masks_.clear();
    locals_.clear();
  }
  if (stacks_.bytes() <= limits_.stack_bytes) return;
  const std::vector<SetId*> roots(roots_.begin(), roots_.end());
  stacks_.collect(roots);
  masks_.clear();
  locals_.clear();
}

size_t Masks::bytes() const {
  size_t bytes = stacks_.bytes();
  for (const auto& [set, local] : locals_) {
    bytes += 8 * local.mask.size() + sizeof(Escape) * local.escapes.size();
  }
  for (const auto& [set, mask] : masks_) bytes += 8 * mask.size();
  return bytes;
}

}  // namespace skald::grammar
