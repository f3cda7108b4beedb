// The state of a text in a grammar: sets of items. An item is an automaton state and the set to
// continue with when the state's rule ends. Equal sets have the same number, so comparison is
// cheap, and each step by one byte is computed once and cached. Together this is a deterministic
// automaton that is built on demand; an ambiguous grammar gets larger sets, not more of them.
//
// The lowest sets are leaves: `bottom`, which lies under the root rule, and "holes", which stand
// for unknown sets. masks.h uses holes to compute what is the same over any lower set.
//
// Not thread-safe. Sets live until collect(). The memory for cached steps is bounded; steps may be
// dropped at any time and are then computed again.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "engine/grammar/arena.h"
#include "engine/grammar/automaton.h"

namespace skald::grammar {

using SetId = uint32_t;
inline constexpr SetId kDead = 0;  // no continuation is possible
inline constexpr int kHoles = 32;
inline constexpr SetId kBottom = kHoles + 1;
constexpr SetId hole(int i) { return static_cast<SetId>(1 + i); }
constexpr bool is_leaf(SetId set) { return set <= kBottom; }

// The state of an item whose rule has ended above a leaf: the text continues with the leaf.
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

  SetId start();  // the set before the first byte
  // The set after one byte. Throws Error(Exit::Failed) for a grammar that is too ambiguous or a
  // text that nests too deep.
  SetId step(SetId set, uint8_t byte) { return step_class(set, automaton_->byte_class()[byte]); }
  SetId step_class(SetId set, uint8_t byte_class) {
    if (const SetId* const row = sets_[set].row; row && row[byte_class] != kNone) {
      return row[byte_class];
    }
    return compute_step(set, byte_class);
  }

  std::span<const Item> items(SetId set) const {
    return {items_.data() + sets_[set].begin, sets_[set].count};
  }
  bool may_end(SetId set) const { return sets_[set].ends_bottom; }  // the text may end here
  // The rule may end here and a hole takes over
  bool leaves_hole(SetId set) const { return sets_[set].ends_hole; }
  bool only_ended(SetId set) const { return sets_[set].only_ended; }  // every item has ended
  bool finished(SetId set) const { return may_end(set) && only_ended(set); }

  // At least so many plain characters (plain_chars.h) may follow, whichever they are. 255: that
  // many or more.
  uint8_t open(SetId set) const { return sets_[set].open; }

  // The same set with holes in place of the sets below its items, and with states replaced by their
  // representatives for texts of up to `bytes` bytes. below[i] is the set that hole(i) stands for.
  // Returns kDead if there are too few holes.
  SetId over_holes(SetId set, uint32_t bytes, std::vector<SetId>& below);

  // The same set with representatives alone.
  SetId alike(SetId set, uint32_t bytes);

  // The set of one item as it is, without the items to which it leads by Empty edges.
  SetId alone(const Item& item) { return intern({&item, 1}); }

  // The set of the texts of both.
  SetId both(SetId a, SetId b);

  // The set of these items in normal form: states that have only Empty edges are replaced by the
  // targets; if a rule may end, the items below are included.
  SetId make(std::span<const Item> items);

  // Drops all sets except `roots` and the sets below them. Updates roots to the new numbers.
  void collect(std::span<SetId* const> roots);
  size_t sets() const { return sets_.size(); }
  size_t bytes() const;

 private:
  static constexpr uint32_t kNone = UINT32_MAX;

  struct OutEdge {
    uint8_t first, last;
    State target;
    SetId below;
  };
  struct Set {
    uint32_t begin = 0, count = 0;   // into items_
    SetId* row = nullptr;            // in rows_: the next sets by byte class
    std::span<const OutEdge> edges;  // in edges_, if has_edges
    uint32_t depth = 0;
    bool has_edges = false;
    bool ends_bottom = false, ends_hole = false, only_ended = false;
    uint8_t open = 0;
  };
  struct Visit {
    Item item;
    uint32_t round = 0;
  };

  SetId compute_step(SetId set, uint8_t byte_class);
  void find_edges(SetId set);
  void forget_steps();
  void add_caller(uint32_t rule, const Item& item);
  SetId intern(std::span<const Item> sorted);  // in normal form
  SetId add_set(std::span<const Item> sorted);
  void grow_table();
  bool first_visit(const Item& item);

  std::shared_ptr<const Automaton> automaton_;
  std::vector<uint8_t> class_byte_;  // one byte of each class
  std::vector<Set> sets_;
  std::vector<Item> items_;
  Arena<SetId> rows_;
  Arena<OutEdge> edges_;
  std::vector<SetId> table_;  // hash table of sets with linear probing; kDead: free

  // Scratch memory.
  std::vector<Item> todo_, made_, from_;
  std::vector<OutEdge> found_;
  std::vector<Visit> visits_;  // hash table of the items seen in this round
  uint32_t round_ = 0;
  size_t visit_count_ = 0;
  std::vector<std::vector<Item>> callers_;             // by rule
  std::vector<std::pair<uint32_t, uint32_t>> called_;  // a heap of (order, rule)
};

}  // namespace skald::grammar
