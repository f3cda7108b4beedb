// The tokens of a model as bytes, sorted into tries, so that one walk asks a grammar about all that
// share their first bytes. Immutable once made; made once a model (some tens of milliseconds for
// 128 thousand tokens) and shared by all grammars.
//
// "Plain" tokens are whole characters that every JSON string may hold: no control character, no
// line break, no quote, no backslash, no part of a character. Most of a vocabulary is plain, and
// inside a string all of them are allowed at once, by their number of characters.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace skald::grammar {

using TokenMask = std::vector<uint64_t>;  // bit i % 64 of word i / 64: token i

struct TrieNode {
  uint32_t end;          // the node after all below this one
  uint32_t first_token;  // of Trie::tokens; those of the next node begin where these end
  uint16_t depth;        // bytes from the root, at least 1
  uint8_t byte;
};

// Nodes in the order of a walk: a node, then what is below it.
struct Trie {
  std::vector<TrieNode> nodes;  // and one beyond the last
  std::vector<int32_t> tokens;

  size_t size() const { return nodes.size() - 1; }
};

// What a plain character is, and whether text is made of them: its characters, or -1.
bool is_plain(char32_t c);
int plain_length(std::string_view text);

class Vocabulary {
 public:
  // bytes[id]: what the token writes; "": it is never allowed (control tokens). Tokens in `ends`
  // are allowed where the text may end. The bytes are copied.
  Vocabulary(std::span<const std::string_view> bytes, std::span<const int32_t> ends);

  size_t size() const { return offsets_.size() - 1; }
  size_t words() const { return (size() + 63) / 64; }  // of a mask
  std::string_view bytes(int32_t id) const;            // "" for ids outside it
  std::span<const int32_t> ends() const { return ends_; }
  bool is_end(int32_t id) const;

  const Trie& all() const { return all_; }
  const Trie& not_plain() const { return not_plain_; }
  int longest_plain() const { return static_cast<int>(plain_.size()); }  // characters
  // The plain tokens of up to so many characters, 1 to longest_plain().
  const TokenMask& plain(int characters) const { return plain_[characters - 1]; }
  uint32_t longest_token() const { return longest_token_; }  // bytes

 private:
  std::vector<char> text_;
  std::vector<uint32_t> offsets_;  // [size + 1] into text_
  std::vector<int32_t> ends_;
  std::vector<TokenMask> plain_;
  Trie all_, not_plain_;
  uint32_t longest_token_ = 0;
};

}  // namespace skald::grammar
