// A grammar as an automaton over bytes. States have edges that take a byte of a range, call a rule,
// or take nothing. A call edge continues at its target when the called rule has ended; the caller
// keeps the stack (stacks.h). Immutable once made.
//
// Every state can reach its rule's end, and every rule ends, so there are no dead ends. A call
// never takes the empty string: if the rule may be empty, an edge that takes nothing stands beside
// the call edge. Left recursion is rewritten, so no rule begins with a call of itself, directly or
// through other rules. Therefore the rules that can begin at one place have an order.
//
// A repetition such as x{3,5000} is stored once; its copies exist only as state numbers.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/grammar/plain_chars.h"
#include "engine/grammar/rules.h"

namespace skald::grammar {

using State = uint32_t;
inline constexpr State kCopies = 1u << 31;  // states from here on belong to a Repeated
inline constexpr State kNoState = UINT32_MAX;

struct Edge {
  enum class Kind : uint8_t { Empty, Byte, Call };
  Kind kind;
  uint8_t first = 0, last = 0;  // Byte
  uint32_t rule = 0;            // Call: index of a rule
  State target;
};

// The edges of states, one behind the other.
class EdgeTable {
 public:
  size_t states() const { return ends_.size(); }
  std::span<const Edge> of(State state) const {
    const uint32_t begin = state == 0 ? 0 : ends_[state - 1];
    return {edges_.data() + begin, ends_[state] - begin};
  }
  std::span<const Edge> all() const { return edges_; }
  void add(Edge edge) { edges_.push_back(edge); }  // of the state that is being made
  void add_state() { ends_.push_back(static_cast<uint32_t>(edges_.size())); }  // ends it
  void reserve(size_t states, size_t edges) {
    ends_.reserve(states);
    edges_.reserve(edges);
  }

 private:
  std::vector<uint32_t> ends_;  // [states], into edges_
  std::vector<Edge> edges_;
};

// What is known of the plain characters of states (plain_chars.h).
class PlainFacts {
 public:
  void set_open(State state, uint32_t open) {  // Automaton::open()
    if (open > 0) of(state).open = static_cast<uint8_t>(std::min(open, uint32_t{255}));
  }
  // chars.usual lead from the state to `next`.
  void add(State state, const PlainChars& chars, State next) {
    const auto known = std::find(sets_.begin(), sets_.end(), chars);
    if (known == sets_.end() && sets_.size() > UINT8_MAX) return;
    of(state).chars = static_cast<uint8_t>(known - sets_.begin());
    of(state).next = next;
    if (known == sets_.end()) sets_.push_back(chars);
  }

  uint8_t open(State state) const { return state < facts_.size() ? facts_[state].open : 0; }
  const PlainChars* chars(State state, State& next) const {
    if (state >= facts_.size() || facts_[state].next == kNoState) return nullptr;
    next = facts_[state].next;
    return &sets_[facts_[state].chars];
  }

 private:
  struct Fact {
    uint8_t open = 0, chars = 0;  // chars: into sets_
    State next = kNoState;
  };
  Fact& of(State state) {
    if (facts_.size() <= state) facts_.resize(state + size_t{1});
    return facts_[state];
  }
  std::vector<Fact> facts_;  // of the first states; of those behind nothing is known
  std::vector<PlainChars> sets_;
};

// Copy i of `copies` has the states base + i * stride and following. State 0 of a copy is its
// begin, state `end` its end.
struct Repeated {
  State base = 0;
  uint32_t stride = 0, copies = 0, least = 0;
  uint32_t end = 0;
  bool may_be_empty = false;  // a copy may match the empty string
  State after = 0;            // the next state once `least` copies are done
  EdgeTable edges;            // [stride], targets within the copy
  PlainChars chars;           // of state 0: chars.usual lead to `end`
};

class Automaton {
 public:
  explicit Automaton(const Rules& rules);

  State begin() const { return begin_; }  // the initial state, outside all rules
  size_t rules() const { return starts_.size(); }
  size_t states() const { return edges_.states(); }

  // The edges by which a rule begins; none of them is Empty.
  std::span<const Edge> start(uint32_t rule) const { return starts_[rule]; }
  bool nullable(uint32_t rule) const { return nullable_[rule]; }
  // A rule has a lower order than every rule that it may begin with.
  uint32_t order(uint32_t rule) const { return order_[rule]; }

  bool is_end(State state) const { return state < kCopies && ends_[state]; }

  template <class Visit>
  void each_edge(State state, Visit visit) const {
    if (state < kCopies) {
      for (const Edge& edge : edges_.of(state)) visit(edge);
      return;
    }
    const Repeated& r = repeated(state);
    const uint32_t copy = (state - r.base) / r.stride, at = (state - r.base) % r.stride;
    const State shift = r.base + copy * r.stride;
    for (Edge edge : r.edges.of(at)) {
      edge.target += shift;
      visit(edge);
    }
    if (at != r.end) return;
    if (copy + 1 < r.copies) visit(Edge{Edge::Kind::Empty, 0, 0, 0, shift + r.stride});
    if (copy + 1 >= r.least) visit(Edge{Edge::Kind::Empty, 0, 0, 0, r.after});
  }

  // At least so many plain characters (plain_chars.h) may follow, whichever they are, and the text
  // can still be completed. 255: that many or more.
  uint8_t open(State state) const { return plain_.open(state); }

  // The plain characters that a state (not kEnded) takes; chars.usual lead to `next`. nullptr: not
  // known.
  const PlainChars* plain_chars(State state, State& next) const;
  // False: no edge of the state takes a plain character.
  bool takes_plain(State state) const;

  // The first state that behaves the same for the next `bytes` bytes, except for what follows its
  // rule.
  State representative(State state, uint32_t bytes) const;

  // Bytes that all edges treat alike have the same class.
  const std::array<uint8_t, 256>& byte_class() const { return byte_class_; }
  int byte_classes() const { return byte_classes_; }

 private:
  friend class Builder;
  const Repeated& repeated(State state) const;

  EdgeTable edges_;
  std::vector<bool> ends_;  // [states]
  PlainFacts plain_;
  std::vector<Repeated> repeated_;  // by base
  std::vector<std::vector<Edge>> starts_;
  std::vector<bool> nullable_;
  std::vector<uint32_t> order_;
  std::array<uint8_t, 256> byte_class_ = {};
  int byte_classes_ = 0;
  State begin_ = 0;
};

}  // namespace skald::grammar
