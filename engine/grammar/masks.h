// Token masks: which tokens may come next, for one grammar and one vocabulary.
//
// The tokens allowed at a place of the grammar depend little on the lower part of its stack: only
// tokens that end the current rule and continue after it depend on it. Therefore a "local" mask is
// cached for the place over holes (stacks.h), together with its escapes: the trie nodes at which
// the rule can end and a hole takes over. The mask for a whole stack combines the local mask with a
// walk below its escapes, and is cached too. All caches are bounded.
//
// One object serves all sequences with the same grammar. Not thread-safe; Matcher locks mutex().
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/grammar/stacks.h"
#include "engine/grammar/utf8_ranges.h"
#include "engine/grammar/vocabulary.h"

namespace skald::grammar {

struct MaskLimits {
  size_t mask_bytes = size_t{32} << 20;  // limit of cached masks
  // Limit of sets and steps; beyond it, unused ones are dropped
  size_t stack_bytes = size_t{96} << 20;
};

class Masks {
 public:
  Masks(std::shared_ptr<const Automaton> automaton, std::shared_ptr<const Vocabulary> vocabulary,
        MaskLimits limits = {});

  const Vocabulary& vocabulary() const { return *vocabulary_; }
  Stacks& stacks() { return stacks_; }

  // The mask of `set`, valid until the next call on this object. Throws the Errors of
  // Stacks::step().
  std::span<const uint64_t> mask(SetId set);

  // The bytes that must come after `set`, up to `most` of them. At each of them no other byte is
  // possible, and the text may not end.
  std::string forced_text(SetId set, size_t most);

  std::mutex& mutex() { return mutex_; }

  // Registers the set of a sequence in progress, which keeps the set alive. For Matcher only.
  void add_root(SetId* set) { roots_.insert(set); }
  void remove_root(SetId* set) { roots_.erase(set); }
  // Frees memory beyond the limits. Called between tokens; for Matcher only.
  void tidy();

  size_t bytes() const;

 private:
  struct Escape {
    uint32_t hole, node;  // at `node` the rule can end and `hole` takes over
    const Trie* trie;     // of the node
  };
  struct Local {
    TokenMask mask;
    bool cached = true;  // false: too many escapes
    std::vector<Escape> escapes;
  };
  struct Ahead {
    SetId set;
    const Trie* trie;
    uint32_t node;
    auto operator<=>(const Ahead&) const = default;
  };

  // Where most plain characters lead.
  struct Usual {
    SetId set = kDead, next = kDead;
    Usual* after = nullptr;  // of `next`, once it was looked up
    PlainSet taken;          // no other plain characters are possible
    PlainSet others;         // the plain characters that lead elsewhere
    PlainSet known;          // the characters for which that is known; those of ASCII always are
    int ascii = 0;           // the number of characters of ASCII that lead to `next`
    uint8_t open = 0;        // Stacks::open()
    // The next `run` places, this one included, have the same `others`; `behind` follows them.
    uint8_t run = 0;
    Usual* behind = nullptr;
  };

  // A place of a walk through plain tokens.
  struct Place {
    SetId set = kDead;
    uint8_t missing = 0;  // bytes of the character there that are still to come
    // Belongs to the set, once it was looked up. Where bytes are missing, it belongs to the place
    // after them, if all characters that begin so lead to one place.
    Usual* usual = nullptr;
  };
  // A mask in locals_ or masks_.
  struct Made {
    SetId set;
    bool local;
  };

  TokenMask empty_mask();
  void forget(const Made& made);
  const Local& local(SetId set);
  // Adds to `mask` the tokens of nodes [begin, end) that `set` allows. `set` is the place after the
  // bytes of the node above them, which has depth `depth`.
  void walk(const Trie& trie, uint32_t begin, uint32_t end, uint32_t depth, SetId set,
            TokenMask& mask, std::vector<Escape>& escapes);
  void add_escapes(const Trie& trie, uint32_t node, SetId set, std::vector<Escape>& escapes);
  // Adds the plain tokens that `set` allows to `mask`, which is empty.
  void walk_plain(SetId set, TokenMask& mask, std::vector<Escape>& escapes);
  Usual& usual(SetId set);
  // Fills `usual` by what the automaton knows. Returns false, having changed nothing, if that is
  // not enough.
  bool read_plain_facts(SetId set, Usual& usual);
  // Fills `usual` by steps with each character of ASCII; find_groups() does so with others.
  void try_ascii(SetId set, Usual& usual);
  void find_groups(const PlainSet& chars, Usual& usual);
  // What is known of usual.next, or of a set like it.
  Usual& after(Usual& usual);
  // True if all tokens below a node of the plain trie are allowed and leave no hole, where `first`
  // is that of the set at the node. False also if this is not known.
  bool all_below(uint32_t node, Usual& first);
  // Finds usual.behind, or lengthens the run.
  void join_run(Usual& usual);
  // Where all characters that begin with `lead` lead to; nullptr if not to one place.
  Usual* usual_step(Usual& from, uint8_t lead);
  // The number of plain characters that are certain to be possible, if each position allows all or
  // no plain characters; -1 otherwise.
  int plain_ahead(SetId set);
  // The set that every plain character leads to (kDead: none is possible). Returns false if plain
  // characters lead to different sets.
  bool plain_step(SetId set, SetId& next);
  // Whether any plain text may follow `set` without leaving a hole; false also if that is not
  // known.
  bool is_open(SetId set);
  // Whether one of the set's items stays, whatever plain characters come: the ".*" before a pattern
  // that may stand anywhere. Then any plain text may follow, whatever the other items allow.
  bool stays_open(SetId set);
  bool stays(const Item& item);
  // Calls `visit` with each set to which plain characters lead (kDead: some are not possible),
  // until it returns false. Returns whether it did not.
  template <class Visit>
  bool each_plain(SetId set, const Visit& visit);
  // The same for the plain characters that begin with one byte, and for all texts of `more` + 1
  // bytes, of which the first is one of `range`.
  template <class Visit>
  bool each_of_lead(SetId set, uint8_t lead, const Visit& visit);
  template <class Visit>
  bool each_step(SetId set, ByteRange range, int more, const Visit& visit);

  std::shared_ptr<const Vocabulary> vocabulary_;
  Stacks stacks_;
  MaskLimits limits_;
  std::unordered_map<SetId, Local> locals_;
  std::unordered_map<SetId, TokenMask> masks_;
  std::deque<Made> order_;        // the masks of both, the oldest first
  std::vector<TokenMask> spare_;  // their memory, once they are forgotten
  std::set<SetId*> roots_;
  std::mutex mutex_;
  std::deque<Usual> usual_;
  std::vector<Usual*> usual_at_;  // [sets] into usual_
  std::unordered_map<SetId, bool> open_, stays_;
  // Scratch of a walk: the place after each byte.
  std::vector<SetId> path_;
  std::vector<Place> plain_path_;
};

}  // namespace skald::grammar
