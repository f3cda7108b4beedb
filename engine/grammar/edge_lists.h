// The edges of an automaton's states while the states are being made: each state has a list.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/grammar/automaton.h"

namespace skald::grammar {

class EdgeLists {
 public:
  size_t size() const { return states_.size(); }
  State add_state() {
    states_.push_back({kNone, kNone});
    return static_cast<State>(states_.size() - 1);
  }
  void add(State from, Edge edge) {
    const auto at = static_cast<uint32_t>(links_.size());
    links_.push_back({edge, kNone});
    (states_[from].first == kNone ? states_[from].first : links_[states_[from].last].next) = at;
    states_[from].last = at;
  }
  // `visit` may add edges, also to `state`.
  template <class Visit>
  void each(State state, Visit visit) const {
    for (uint32_t at = states_[state].first, last = states_[state].last; at != kNone;) {
      const uint32_t next = at == last ? kNone : links_[at].next;
      visit(Edge(links_[at].edge));
      at = next;
    }
  }
  EdgeTable table() const {
    EdgeTable table;
    table.reserve(states_.size(), links_.size());
    for (State state = 0; state < states_.size(); ++state) {
      each(state, [&](const Edge& edge) { table.add(edge); });
      table.add_state();
    }
    return table;
  }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Ends {
    uint32_t first, last;  // into links_
  };
  struct Link {
    Edge edge;
    uint32_t next;
  };
  std::vector<Ends> states_;
  std::vector<Link> links_;
};

}  // namespace skald::grammar
