// Where a text may stand in a grammar: sets of (state, what it goes on with when its rule ends),
// which are sets again. Equal sets are one number, so comparing them is cheap, and a step by a byte
// is computed once and remembered. This is a deterministic automaton made while it runs; a grammar
// that is ambiguous gets larger sets, not more of them.
//
// The leaves below all sets are `bottom`, under the root rule, and "holes", which stand for sets
// that are not known: masks.h computes with holes what is the same over any of them.
//
// Not thread-safe. Sets live until collect(). Memory of remembered steps is bounded; it is given
// back at any time and computed again.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "engine/grammar/automaton.h"

namespace skald::grammar {

using SetId = uint32_t;
inline constexpr SetId kDead = 0;  // nothing is possible
inline constexpr int kHoles = 32;
inline constexpr SetId kBottom = kHoles + 1;
constexpr SetId hole(int i) { return static_cast<SetId>(1 + i); }
constexpr bool is_leaf(SetId set) { return set <= kBottom; }

// An item of state kEnded has ended the rule above a leaf: the text goes on with what is there.
inline constexpr State kEnded = kNoState;

struct Item {
  State state;
  SetId below;
  bool operator==(const Item&) const = default;
  auto operator<=>(const Item&) const = default;
};

class Stacks {
 public:
  explicit Stacks(std::shared_ptr<const Automaton> automaton);

  const Automaton& automaton() const { return *automaton_; }

  SetId start();  // before the text
  // Never throws but for a grammar that is too ambiguous, or a text that nests too deep:
  // Error(Exit::Failed).
  SetId step(SetId set, uint8_t byte) { return step_class(set, automaton_->byte_class()[byte]); }
  SetId step_class(SetId set, uint8_t byte_class) {
    const uint32_t row = sets_[set].row;
    if (row != kNone) {
      const SetId next = rows_[row + byte_class];
      if (next != kNone) return next;
    }
    return compute_step(set, byte_class);
  }

  std::span<const Item> items(SetId set) const {
    return {items_.data() + sets_[set].begin, sets_[set].count};
  }
  bool may_end(SetId set) const { return sets_[set].ends_bottom; }    // the text may end here
  bool leaves_hole(SetId set) const { return sets_[set].ends_hole; }  // a hole's turn may be now
  bool only_ended(SetId set) const { return sets_[set].only_ended; }  // nothing else goes on
  bool finished(SetId set) const { return may_end(set) && only_ended(set); }

  // The set with holes in the place of what is below its items, states replaced by their
  // representatives for texts of up to `bytes`; below[i] is what hole(i) stands for. kDead when
  // there are not enough holes.
  SetId over_holes(SetId set, uint32_t bytes, std::vector<SetId>& below);

  // A set of these items, in normal form: states reached by Empty edges are in it instead of those
  // that have no other, and where a rule may have ended, the items below.
  SetId make(std::span<const Item> items);

  // Forgets all sets but those in `roots` and what is below them; changes roots to their new
  // numbers.
  void collect(std::span<SetId* const> roots);
  size_t sets() const { return sets_.size(); }
  size_t bytes() const;

 private:
  static constexpr uint32_t kNone = UINT32_MAX;

  struct Set {
    uint32_t begin = 0, count = 0;           // of items_
    uint32_t row = kNone;                    // of rows_: next sets by byte class
    uint32_t edges = kNone, edge_count = 0;  // of edges_
    uint32_t depth = 0;
    bool ends_bottom = false, ends_hole = false, only_ended = false;
  };
  struct OutEdge {
    uint8_t first, last;
    State target;
    SetId below;
  };
  struct Visit {
    Item item;
    uint32_t round = 0;
  };

  SetId compute_step(SetId set, uint8_t byte_class);
  void find_edges(SetId set);
  void add_caller(uint32_t rule, const Item& item);
  SetId intern(std::span<const Item> sorted);  // in normal form
  SetId add_set(std::span<const Item> sorted);
  void grow_table();
  bool first_visit(const Item& item);

  std::shared_ptr<const Automaton> automaton_;
  std::vector<uint8_t> class_byte_;  // a byte of each class
  std::vector<Set> sets_;
  std::vector<Item> items_;
  std::vector<uint32_t> rows_;
  std::vector<OutEdge> edges_;
  std::vector<SetId> table_;  // hash table of sets, linear probing; kDead: free

  // Scratch.
  std::vector<Item> todo_, made_, from_;
  std::vector<Visit> visits_;  // hash table of the items seen in this round
  uint32_t round_ = 0;
  size_t visit_count_ = 0;
  std::vector<std::vector<Item>> callers_;             // by rule
  std::vector<std::pair<uint32_t, uint32_t>> called_;  // a heap of (order, rule)
};

}  // namespace skald::grammar
