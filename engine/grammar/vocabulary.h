// A model's tokens as bytes, sorted into tries, so that one walk checks all tokens with a common
// prefix. Immutable. Made once for a model (some tens of milliseconds for 128 thousand tokens) and
// shared by all grammars.
//
// "Plain" tokens consist of whole plain characters (plain_chars.h). Most of a vocabulary is plain,
// so plain tokens have a trie of their own: inside a string, all of up to a number of characters
// are allowed at once, without a walk.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "engine/grammar/plain_chars.h"
#include "engine/grammar/rules.h"

namespace skald::grammar {

using TokenMask = std::vector<uint64_t>;  // bit i % 64 of word i / 64: token i

inline bool has_token(std::span<const uint64_t> mask, int32_t id) {
  return mask[static_cast<size_t>(id) / 64] >> (id % 64) & 1;
}
inline void add_token(TokenMask& mask, int32_t id) {
  mask[static_cast<size_t>(id) / 64] |= uint64_t{1} << (id % 64);
}
inline void remove_token(TokenMask& mask, int32_t id) {
  mask[static_cast<size_t>(id) / 64] &= ~(uint64_t{1} << (id % 64));
}

struct TrieNode {
  uint32_t end;          // index after all nodes below this one
  uint32_t first_token;  // into Trie::tokens; ends at the first_token of the next node
  uint16_t depth;        // bytes from the root, at least 1
  uint8_t byte;
  uint8_t height = 0;  // bytes of the longest token below this node, at most 255
};

// Nodes in depth-first order.
struct Trie {
  std::vector<TrieNode> nodes;  // with one extra node at the end
  std::vector<int32_t> tokens;
  std::vector<PlainSet> below;  // [size] characters that begin below a node; for plain tokens

  size_t size() const { return nodes.size() - 1; }
};

class Vocabulary {
 public:
  // bytes[id] is the text of a token; "" is never allowed (control tokens). Tokens in `ends` are
  // allowed where the text may end. The bytes are copied. `named`: for each reference of a grammar
  // to tokens, the tokens that it allows.
  Vocabulary(std::span<const std::string_view> bytes, std::span<const int32_t> ends,
             std::vector<TokenMask> named = {});

  size_t size() const { return offsets_.size() - 1; }
  size_t words() const { return (size() + 63) / 64; }  // size of a mask
  std::string_view bytes(int32_t id) const;            // "" for ids outside the vocabulary
  std::span<const int32_t> ends() const { return ends_; }
  bool is_end(int32_t id) const;
  std::span<const TokenMask> named() const { return named_; }
  // Calls `visit` with the tokens that begin with `text` and are longer, until it returns true.
  // Returns whether it did.
  bool any_longer(std::string_view text, const std::function<bool(int32_t)>& visit) const;

  const Trie& plain_trie() const { return plain_trie_; }
  const Trie& other_trie() const { return other_trie_; }
  int longest_plain() const { return static_cast<int>(plain_.size()); }  // characters
  // The plain tokens of at most `characters` characters, for 1 to longest_plain().
  const TokenMask& plain(int characters) const { return plain_[characters - 1]; }
  uint32_t longest_token() const { return longest_token_; }  // bytes

 private:
  std::vector<char> text_;
  std::vector<uint32_t> offsets_;  // [size + 1] into text_
  std::vector<int32_t> ends_;
  std::vector<TokenMask> plain_, named_;
  Trie plain_trie_, other_trie_;
  uint32_t longest_token_ = 0;
};

}  // namespace skald::grammar
