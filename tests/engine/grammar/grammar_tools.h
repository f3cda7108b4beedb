// Tools for tests of grammars: small vocabularies, random texts under a grammar, masks by trying
// every token, and a recognizer without an automaton.
#pragma once

#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "engine/grammar/matcher.h"
#include "engine/grammar/rules.h"
#include "engine/grammar/utf8_ranges.h"

namespace skald::test {

using grammar::Automaton;
using grammar::Masks;
using grammar::Matcher;
using grammar::Rules;
using grammar::Vocabulary;

using Random = std::mt19937_64;
inline size_t below(Random& random, size_t n) { return n == 0 ? 0 : random() % n; }

inline std::shared_ptr<Vocabulary> make_vocabulary(const std::vector<std::string>& tokens,
                                                   const std::vector<int32_t>& ends = {},
                                                   std::vector<grammar::TokenMask> named = {}) {
  const std::vector<std::string_view> views(tokens.begin(), tokens.end());
  return std::make_shared<Vocabulary>(views, ends, std::move(named));
}

// The 256 bytes, then `more`, then the end token.
inline std::vector<std::string> byte_tokens(std::vector<std::string> more = {}) {
  std::vector<std::string> tokens;
  tokens.reserve(257 + more.size());
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  tokens.insert(tokens.end(), more.begin(), more.end());
  tokens.emplace_back();
  return tokens;
}

inline std::shared_ptr<Vocabulary> byte_vocabulary(std::vector<std::string> more = {}) {
  const std::vector<std::string> tokens = byte_tokens(std::move(more));
  return make_vocabulary(tokens, {static_cast<int32_t>(tokens.size()) - 1});
}

inline std::shared_ptr<Masks> make_masks(const Rules& rules,
                                         std::shared_ptr<const Vocabulary> vocabulary,
                                         grammar::MaskLimits limits = {}) {
  return std::make_shared<Masks>(std::make_shared<Automaton>(rules), std::move(vocabulary), limits);
}

inline bool has_bit(std::span<const uint64_t> mask, int32_t token) {
  return grammar::has_token(mask, token);
}

// Whether the grammar has a text that begins so, and whether the text is complete.
struct Reading {
  bool alive, whole;
};
inline Reading read(const Rules& rules, std::string_view text) {
  static const auto no_tokens = make_vocabulary({});
  Matcher matcher(make_masks(rules, no_tokens));
  if (!matcher.accept(text)) return {false, false};
  return {true, matcher.may_end()};
}

// The first token whose bit differs from the result of trying the token, or -1.
inline int32_t wrong_bit(const Vocabulary& vocabulary, Matcher& matcher) {
  const std::span<const uint64_t> view = matcher.mask();
  const std::vector<uint64_t> mask(view.begin(), view.end());
  for (int32_t id = 0; static_cast<size_t>(id) < vocabulary.size(); ++id) {
    Matcher trial = matcher;
    if (has_bit(mask, id) != trial.accept(id)) return id;
  }
  return -1;
}

// Stands for a model: picks random allowed tokens. Ends where the grammar allows an end, after more
// than `length` bytes for sure.
struct Writer {
  Random random;
  size_t length = 60;

  // False when no token was allowed, or the text became too long.
  bool write(Matcher matcher, const Vocabulary& vocabulary, std::string& text) {
    text.clear();
    for (int step = 0; step < 20000 && text.size() < 20 * length + 400 && !matcher.finished();
         ++step) {
      const std::span<const uint64_t> mask = matcher.mask();
      std::vector<int32_t> allowed;
      for (int32_t id = 0; static_cast<size_t>(id) < vocabulary.size(); ++id) {
        if (has_bit(mask, id)) allowed.push_back(id);
      }
      if (allowed.empty()) return false;
      const bool late = text.size() > length;
      if (late && matcher.may_end()) return true;
      int32_t token = allowed[below(random, allowed.size())];
      if (late) token = nearest_to_end(matcher, vocabulary, allowed);
      if (vocabulary.is_end(token)) {
        if (matcher.may_end()) return true;
        return false;
      }
      if (!matcher.accept(token)) return false;
      text += vocabulary.bytes(token);
    }
    return matcher.may_end();
  }

  // Prefers tokens that close something: quotes, brackets, line ends.
  int32_t nearest_to_end(const Matcher&, const Vocabulary& vocabulary,
                         const std::vector<int32_t>& allowed) {
    std::vector<int32_t> closing;
    for (int32_t id : allowed) {
      for (std::string_view text : {"\"", "}", "]", ")", "\n"}) {
        if (vocabulary.bytes(id) == text) closing.push_back(id);
      }
    }
    if (!closing.empty() && below(random, 8) != 0) return closing[below(random, closing.size())];
    return allowed[below(random, allowed.size())];
  }
};

// Decides whether a text belongs to a grammar by trying all ways until no new end is found. Slow,
// but simple enough to trust.
class SlowReader {
 public:
  SlowReader(const Rules& rules, std::string_view text) : rules_(rules), text_(text) {}

  bool whole() {
    const grammar::NodeId root = rules_.body(rules_.root);
    for (bool changed = true; changed;) {
      changed_ = false;
      ends(root, 0);
      for (const auto& [key, found] : std::map(calls_)) {
        const std::set<size_t> again =
            ends(rules_.body(static_cast<grammar::RuleId>(key.first)), key.second);
        if (again != calls_[key]) changed_ = true, calls_[key] = again;
      }
      changed = changed_;
    }
    return ends(root, 0).count(text_.size()) > 0;
  }

 private:
  using Kind = grammar::Node::Kind;

  std::set<size_t> ends(grammar::NodeId id, size_t at) {
    const grammar::Node& node = rules_.node(id);
    std::set<size_t> result;
    switch (node.kind) {
      case Kind::Text:
        if (text_.substr(at, node.text.size()) == node.text) result.insert(at + node.text.size());
        break;
      case Kind::Class: {
        char32_t c = 0;
        size_t next = at;
        if (grammar::decode_utf8(text_, next, c) && grammar::contains(node.chars, c)) {
          result.insert(next);
        }
        break;
      }
      case Kind::Choice:
        for (grammar::NodeId part : node.parts) result.merge(ends(part, at));
        break;
      case Kind::Sequence:
        result.insert(at);
        for (grammar::NodeId part : node.parts) result = after(result, part);
        break;
      case Kind::Repeat: {
        std::set<size_t> now{at};
        for (uint32_t i = 0; i < node.least; ++i) now = after(now, node.parts[0]);
        result = now;
        for (uint32_t i = node.least; i < node.most && !now.empty(); ++i) {
          const size_t before = result.size();
          now = after(now, node.parts[0]);
          result.insert(now.begin(), now.end());
          if (node.most == grammar::kUnbounded && result.size() == before) break;
        }
        break;
      }
      case Kind::Graph: {
        const grammar::Graph& graph = rules_.graph(node);
        std::vector<std::set<size_t>> places(graph.ends.size());
        places[0].insert(at);
        for (bool changed = true; changed;) {
          changed = false;
          for (const grammar::Graph::Link& link : graph.links) {
            const size_t before = places[link.to].size();
            places[link.to].merge(after(places[link.from], node.parts[link.part]));
            changed |= places[link.to].size() > before;
          }
        }
        for (size_t i = 0; i < places.size(); ++i) {
          if (graph.ends[i]) result.merge(places[i]);
        }
        break;
      }
      case Kind::Call: {
        const auto key = std::pair(static_cast<size_t>(node.rule), at);
        if (calls_.try_emplace(key).second) changed_ = true;
        result = calls_[key];
        break;
      }
    }
    return result;
  }

  std::set<size_t> after(const std::set<size_t>& places, grammar::NodeId part) {
    std::set<size_t> result;
    for (size_t place : places) result.merge(ends(part, place));
    return result;
  }

  const Rules& rules_;
  std::string_view text_;
  bool changed_ = false;
  std::map<std::pair<size_t, size_t>, std::set<size_t>> calls_;
};

}  // namespace skald::test
