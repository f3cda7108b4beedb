// Which tokens may come next, for the places of one grammar and the tokens of one vocabulary.
//
// What a place allows depends little on what lies below it on the stack: only tokens that end the
// rule and go on. So masks are kept by the place over holes (stacks.h), with the points of the trie
// where a hole comes to its turn; a mask for a whole stack is put together from that and from a
// walk of what is below those points, and kept too. All caches are bounded.
//
// One object serves all texts that are written by the same grammar. Not thread-safe but for
// Matcher, which holds its mutex.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/grammar/stacks.h"
#include "engine/grammar/vocabulary.h"

namespace skald::grammar {

struct MaskLimits {
  size_t mask_bytes = size_t{32} << 20;   // kept masks
  size_t stack_bytes = size_t{96} << 20;  // sets and steps, before those not in use are forgotten
};

class Masks {
 public:
  Masks(std::shared_ptr<const Automaton> automaton, std::shared_ptr<const Vocabulary> vocabulary,
        MaskLimits limits = {});

  const Vocabulary& vocabulary() const { return *vocabulary_; }
  Stacks& stacks() { return stacks_; }

  // Valid until the next call for this object. May throw the Errors of Stacks::step().
  std::span<const uint64_t> mask(SetId set);

  std::mutex& mutex() { return mutex_; }

  // A text in progress: its set stays valid through the calls here. Both are for Matcher.
  void hold(SetId* set) { held_.insert(set); }
  void release(SetId* set) { held_.erase(set); }
  // Gives memory back when there is too much; between tokens.
  void tidy();

  size_t bytes() const;

 private:
  struct Escape {
    uint32_t hole, node;  // after the bytes down to this node, the hole has its turn
    auto operator<=>(const Escape&) const = default;
  };
  struct Local {
    TokenMask mask;
    const Trie* trie = nullptr;  // that the nodes are of; none: too many escapes, nothing is kept
    std::vector<Escape> escapes;
  };
  struct Ahead {
    SetId set;
    const Trie* trie;
    uint32_t node;
    auto operator<=>(const Ahead&) const = default;
  };

  const Local& local(SetId set);
  // Adds the tokens of nodes [begin, end) that `set` allows, when the text has come to the node
  // above them; `depth` is the depth of that node.
  void walk(const Trie& trie, uint32_t begin, uint32_t end, uint32_t depth, SetId set,
            TokenMask& mask, std::vector<Escape>& escapes);
  // How many plain characters can surely come, if after those either all or none can; -1: not so.
  int plain_ahead(SetId set);
  // Where all plain characters lead, kDead when none is possible; nothing when they differ.
  bool plain_step(SetId set, SetId& next);
  bool same_step(SetId set, int first, int last, int more, SetId& next, bool& known);

  std::shared_ptr<const Vocabulary> vocabulary_;
  Stacks stacks_;
  MaskLimits limits_;
  std::unordered_map<SetId, Local> locals_;
  std::unordered_map<SetId, TokenMask> masks_;
  std::set<SetId*> held_;
  std::mutex mutex_;
  std::vector<SetId> path_;  // of walk()
};

}  // namespace skald::grammar
