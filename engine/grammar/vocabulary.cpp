#include "engine/grammar/vocabulary.h"

#include <algorithm>

#include "engine/base/error.h"
#include "engine/grammar/utf8_ranges.h"

namespace skald::grammar {
namespace {

constexpr size_t kLongestToken = 4096;  // bytes; longer tokens are never allowed
constexpr size_t kMostBytes = size_t{1} << 30;
constexpr int kLongestPlain = 64;  // characters; longer plain tokens stand with the others

// `ids` are sorted by their bytes.
Trie make_trie(const Vocabulary& vocabulary, std::span<const int32_t> ids) {
  Trie trie;
  trie.tokens.assign(ids.begin(), ids.end());
  std::vector<uint32_t> open;  // nodes on the path to the last one
  std::string_view before;
  const auto close_to = [&](size_t depth) {
    for (; open.size() > depth; open.pop_back()) {
      trie.nodes[open.back()].end = static_cast<uint32_t>(trie.nodes.size());
    }
  };
  for (size_t i = 0; i < ids.size(); ++i) {
    const std::string_view bytes = vocabulary.bytes(ids[i]);
    const auto [differs, unused] =
        std::mismatch(before.begin(), before.end(), bytes.begin(), bytes.end());
    close_to(static_cast<size_t>(differs - before.begin()));
    for (size_t depth = open.size(); depth < bytes.size(); ++depth) {
      open.push_back(static_cast<uint32_t>(trie.nodes.size()));
      trie.nodes.push_back({0, static_cast<uint32_t>(i), static_cast<uint16_t>(depth + 1),
                            static_cast<uint8_t>(bytes[depth])});
    }
    before = bytes;
  }
  close_to(0);
  const auto count = static_cast<uint32_t>(trie.nodes.size());
  trie.nodes.push_back({count, static_cast<uint32_t>(ids.size()), 0, 0});
  // A node without tokens of its own starts where the next node starts. A node with tokens starts
  // before its children, because sorted order puts shorter tokens first.
  for (size_t i = count; i-- > 0;) {
    TrieNode& node = trie.nodes[i];
    if (vocabulary.bytes(trie.tokens[node.first_token]).size() > node.depth) {
      node.first_token = trie.nodes[i + 1].first_token;
    }
  }
  return trie;
}

// Sets what is known of the nodes below each node. `trie` has plain tokens alone.
void look_below(Trie& trie) {
  struct Seen {
    PlainSet chars;
    int height = 0;
  };
  std::vector<Seen> seen(kLongestToken + 2);  // at each depth, since the last node above it
  trie.below.resize(trie.size());
  for (size_t n = trie.size(); n-- > 0;) {
    TrieNode& node = trie.nodes[n];
    Seen &under = seen[node.depth + 1u], &here = seen[node.depth];
    trie.below[n] = under.chars;
    node.height = static_cast<uint8_t>(std::min(under.height, 255));
    here.chars.add(under.chars);
    if (utf8_begins(node.byte)) here.chars.add(PlainSet::group(node.byte));
    here.height = std::max(here.height, under.height + 1);
    under = {};
  }
}

// The bytes of references stand behind all texts.
void add_named(Trie& trie, std::span<const TokenMask> named) {
  if (named.empty()) return;
  trie.nodes.pop_back();
  const auto add_node = [&](std::string_view bytes) {
    trie.nodes.push_back({0, static_cast<uint32_t>(trie.tokens.size()),
                          static_cast<uint16_t>(bytes.size()), static_cast<uint8_t>(bytes.back())});
    return trie.nodes.size() - 1;
  };
  const size_t first = add_node(token_reference_bytes(0).substr(0, 1));
  for (size_t i = 0; i < named.size(); ++i) {
    const size_t node = add_node(token_reference_bytes(i));
    for (int32_t id = 0; static_cast<size_t>(id) < 64 * named[i].size(); ++id) {
      if (has_token(named[i], id)) trie.tokens.push_back(id);
    }
    trie.nodes[node].end = static_cast<uint32_t>(node + 1);
  }
  const auto count = static_cast<uint32_t>(trie.nodes.size());
  trie.nodes[first].end = count;
  trie.nodes.push_back({count, static_cast<uint32_t>(trie.tokens.size()), 0, 0});
}

void sort_by_bytes(const Vocabulary& vocabulary, std::vector<int32_t>& ids) {
  struct Key {
    uint64_t head;  // the first 8 bytes, which decide most comparisons
    int32_t id;
  };
  std::vector<Key> keys;
  keys.reserve(ids.size());
  for (int32_t id : ids) {
    const std::string_view bytes = vocabulary.bytes(id);
    uint64_t head = 0;
    for (size_t i = 0; i < 8; ++i) {
      head = head << 8 | (i < bytes.size() ? static_cast<uint8_t>(bytes[i]) : 0);
    }
    keys.push_back({head, id});
  }
  std::sort(keys.begin(), keys.end(), [&](const Key& a, const Key& b) {
    if (a.head != b.head) return a.head < b.head;
    const std::string_view x = vocabulary.bytes(a.id), y = vocabulary.bytes(b.id);
    return x != y ? x < y : a.id < b.id;
  });
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = keys[i].id;
}

}  // namespace

Vocabulary::Vocabulary(std::span<const std::string_view> bytes, std::span<const int32_t> ends,
                       std::vector<TokenMask> named)
    : named_(std::move(named)) {
  offsets_.reserve(bytes.size() + 1);
  offsets_.push_back(0);
  for (std::string_view token : bytes) {
    // A byte that no text has stands for tokens themselves (token_reference_bytes()): the token of
    // that byte must not be taken for them.
    const bool fits = token.size() <= kLongestToken &&
                      token.find(token_reference_bytes(0)[0]) == std::string_view::npos;
    if (fits) text_.insert(text_.end(), token.begin(), token.end());
    if (text_.size() > kMostBytes) {
      fail(Exit::Model, "the vocabulary's text is larger than ", kMostBytes,
           " bytes, too large for a grammar");
    }
    offsets_.push_back(static_cast<uint32_t>(text_.size()));
  }
  for (int32_t id : ends) {
    if (id >= 0 && static_cast<size_t>(id) < bytes.size()) ends_.push_back(id);
  }
  std::sort(ends_.begin(), ends_.end());

  std::vector<int32_t> ids, plain_ids, other_ids;
  std::vector<std::pair<int, int32_t>> plain;  // characters, token
  for (int32_t id = 0; static_cast<size_t>(id) < size(); ++id) {
    const std::string_view token = this->bytes(id);
    if (token.empty() || is_end(id)) continue;
    longest_token_ = std::max(longest_token_, static_cast<uint32_t>(token.size()));
    ids.push_back(id);
  }
  sort_by_bytes(*this, ids);
  for (int32_t id : ids) {
    const int length = plain_length(this->bytes(id));
    if (length > 0 && length <= kLongestPlain) {
      plain.emplace_back(length, id);
      plain_ids.push_back(id);
    } else {
      other_ids.push_back(id);
    }
  }
  plain_trie_ = make_trie(*this, plain_ids);
  look_below(plain_trie_);
  other_trie_ = make_trie(*this, other_ids);
  if (!named_.empty()) {
    add_named(other_trie_, named_);
    longest_token_ =
        std::max(longest_token_, static_cast<uint32_t>(token_reference_bytes(0).size()));
  }
  std::sort(plain.begin(), plain.end());
  const int longest = plain.empty() ? 0 : plain.back().first;
  size_t next = 0;
  TokenMask mask(words());
  for (int length = 1; length <= longest; ++length) {
    for (; next < plain.size() && plain[next].first == length; ++next) {
      add_token(mask, plain[next].second);
    }
    plain_.push_back(mask);
  }
}

std::string_view Vocabulary::bytes(int32_t id) const {
  if (id < 0 || static_cast<size_t>(id) >= size()) return {};
  return {text_.data() + offsets_[id], offsets_[id + 1] - offsets_[id]};
}

bool Vocabulary::any_longer(std::string_view text,
                            const std::function<bool(int32_t)>& visit) const {
  for (const Trie* trie : {&plain_trie_, &other_trie_}) {
    const auto& nodes = trie->nodes;
    uint32_t begin = 0,
             end = static_cast<uint32_t>(trie->size());  // the nodes below the text so far
    for (size_t i = 0; i < text.size() && begin < end; ++i) {
      uint32_t n = begin;
      while (n < end && nodes[n].byte != static_cast<uint8_t>(text[i])) n = nodes[n].end;
      if (n == end) {
        begin = end;
        break;
      }
      begin = n + 1;
      end = nodes[n].end;
    }
    for (uint32_t t = nodes[begin].first_token; begin < end && t < nodes[end].first_token; ++t) {
      if (visit(trie->tokens[t])) return true;
    }
  }
  return false;
}

bool Vocabulary::is_end(int32_t id) const {
  return std::binary_search(ends_.begin(), ends_.end(), id);
}

}  // namespace skald::grammar
