// Properties of a grammar's nodes and rules that the automaton's builder needs.
#pragma once

#include <string>
#include <vector>

#include "engine/grammar/rules.h"

namespace skald::grammar {

struct Analysis {
  // For each node:
  std::vector<bool> can_end;   // matches some finite string
  std::vector<bool> nullable;  // matches the empty string
  std::vector<bool> fills;     // matches some non-empty string
  // For each rule:
  std::vector<bool> reached;  // reachable from the root
  // Built in place instead of called: small or used once, and not recursive
  std::vector<bool> copied;
  std::vector<bool> left_recursive;  // may begin with itself, or lies on a path between such rules
};

// Throws Error(Exit::Usage) if the root cannot end. Unless rules.drop_endless is set, also if a
// rule that the root needs cannot end.
Analysis analyse(const Rules& rules);

// States of a graph that are reached from state 0 by links whose part passes; and those from which
// an end is reached too. passes[i]: parts[i] of the graph's node may be passed.
std::vector<bool> reached_states(const Graph& graph, const std::vector<bool>& passes);
std::vector<bool> useful_states(const Graph& graph, const std::vector<bool>& passes);

}  // namespace skald::grammar
