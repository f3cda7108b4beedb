// Where the plain characters lead from the states of a graph, as far as its parts say so at once.
// With this, masks.h need not try byte by byte where each of them leads.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/grammar/plain_chars.h"
#include "engine/grammar/rules.h"

namespace skald::grammar {

struct PlainStep {
  static constexpr uint32_t kUnknown = UINT32_MAX;
  PlainChars chars;
  uint32_t to = kUnknown;  // the state of the graph to which chars.usual lead
};

// A step for each state: that of the link which takes most characters of ASCII. Empty if there are
// none. passes[i]: parts[i] of the node can end; useful[i]: an end can be reached from state i.
// Other links are left out.
std::vector<PlainStep> plain_steps(const Rules& rules, const Node& graph_node,
                                   const std::vector<bool>& passes,
                                   const std::vector<bool>& useful);

// The same for the way from the begin of a part to its end. chars.usual is empty if nothing is
// known.
PlainChars plain_chars_of(const Rules& rules, NodeId part);

}  // namespace skald::grammar
