// Makes a grammar's graph from states of any type that has an order: a state is numbered when it is
// first seen, and waits until its links have been added.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "engine/grammar/rules.h"

namespace skald {

inline constexpr size_t kMostGraphStates = 20'000;

template <class State>
class GraphMaker {
 public:
  explicit GraphMaker(grammar::Rules& rules) : rules_(rules) {}

  uint32_t number(const State& state) {
    const auto [known, fresh] = numbers_.try_emplace(state, static_cast<uint32_t>(states_.size()));
    if (fresh) {
      states_.push_back(state);
      graph_.ends.push_back(false);
    }
    return known->second;
  }
  size_t size() const { return states_.size(); }
  const State& state(size_t i) const { return states_[i]; }

  void end(size_t state) { graph_.ends[state] = true; }
  // Nodes that are used often should be the same NodeId.
  void link(size_t from, grammar::NodeId node, const State& to) {
    const auto [known, fresh] = parts_.try_emplace(node, static_cast<uint32_t>(nodes_.size()));
    if (fresh) nodes_.push_back(node);
    const uint32_t target = number(to);
    graph_.links.push_back({static_cast<uint32_t>(from), target, known->second});
  }

  grammar::NodeId make() { return rules_.graph(std::move(nodes_), std::move(graph_)); }

 private:
  grammar::Rules& rules_;
  std::map<State, uint32_t> numbers_;
  std::vector<State> states_;
  grammar::Graph graph_;
  std::vector<grammar::NodeId> nodes_;
  std::map<grammar::NodeId, uint32_t> parts_;
};

}  // namespace skald
