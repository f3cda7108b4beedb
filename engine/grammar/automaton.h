// A grammar as a machine over bytes: states with edges that take a byte of a range, call a rule, or
// take nothing. A call edge goes on at its target when the called rule has ended; who runs it keeps
// a stack (stacks.h). Immutable once made.
//
// Every state can still reach its rule's end, and every rule ends: who is in a state always has a
// way on. A call can take a text, and never takes the empty one: beside the edge of a rule that may
// be empty stands an edge that takes nothing. No rule begins with a call of itself, at any distance
// (left recursion is rewritten), so the rules that can begin at one place have an order.
//
// x{3,5000} is stored once: its copies are states by number alone.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

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

// Copy i of `copies` has the states base + i * stride ... : state 0 is its begin, `end` its end.
struct Repeated {
  State base = 0;
  uint32_t stride = 0, copies = 0, least = 0;
  uint32_t end = 0;
  bool may_be_empty = false;             // a copy may take nothing
  State after = 0;                       // where it goes on when `least` copies are done
  std::vector<std::vector<Edge>> edges;  // [stride], targets within the copy
};

class Automaton {
 public:
  explicit Automaton(const Rules& rules);

  State begin() const { return begin_; }  // outside all rules, before the root
  size_t rules() const { return starts_.size(); }
  size_t states() const { return edges_.size(); }

  // The edges, none of them Empty, by which a rule begins.
  std::span<const Edge> start(uint32_t rule) const { return starts_[rule]; }
  bool nullable(uint32_t rule) const { return nullable_[rule]; }
  // A rule comes before all that it may begin with.
  uint32_t order(uint32_t rule) const { return order_[rule]; }

  bool is_end(State state) const { return state < kCopies && ends_[state]; }

  template <class Visit>
  void each_edge(State state, Visit visit) const {
    if (state < kCopies) {
      for (const Edge& edge : edges_[state]) visit(edge);
      return;
    }
    const Repeated& r = repeated(state);
    const uint32_t copy = (state - r.base) / r.stride, at = (state - r.base) % r.stride;
    const State shift = r.base + copy * r.stride;
    for (Edge edge : r.edges[at]) {
      edge.target += shift;
      visit(edge);
    }
    if (at != r.end) return;
    if (copy + 1 < r.copies) visit(Edge{Edge::Kind::Empty, 0, 0, 0, shift + r.stride});
    if (copy + 1 >= r.least) visit(Edge{Edge::Kind::Empty, 0, 0, 0, r.after});
  }

  // The first state that behaves the same for the next `bytes` bytes, but for what follows its
  // rule.
  State representative(State state, uint32_t bytes) const;

  // Bytes that no edge tells apart have the same class.
  const std::array<uint8_t, 256>& byte_class() const { return byte_class_; }
  int byte_classes() const { return byte_classes_; }

 private:
  friend class Builder;
  const Repeated& repeated(State state) const;

  std::vector<std::vector<Edge>> edges_;  // [states]
  std::vector<bool> ends_;                // [states]
  std::vector<Repeated> repeated_;        // by base
  std::vector<std::vector<Edge>> starts_;
  std::vector<bool> nullable_;
  std::vector<uint32_t> order_;
  std::array<uint8_t, 256> byte_class_ = {};
  int byte_classes_ = 0;
  State begin_ = 0;
};

}  // namespace skald::grammar
