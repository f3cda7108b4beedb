#include "engine/grammar/analysis.h"

#include <algorithm>

#include "engine/base/error.h"

namespace skald::grammar {
namespace {

using Kind = Node::Kind;

// A rule of at most this weight is built in place at each call, so it needs no stack. A heavier
// rule is called: its masks are then cached once for the rule instead of once for each caller.
constexpr size_t kLightWeight = 12;

class Analyser {
 public:
  explicit Analyser(const Rules& rules) : rules_(rules), calls_(rules.size()), left_(rules.size()) {
    a_.can_end.resize(rules.nodes());
    a_.nullable.resize(rules.nodes());
    a_.fills.resize(rules.nodes());
    a_.reached.resize(rules.size());
    a_.copied.resize(rules.size());
    a_.left_recursive.resize(rules.size());
    ends_.resize(rules.size());
    empty_.resize(rules.size());
    fills_.resize(rules.size());
  }

  Analysis run() {
    reach();
    close();
    refuse_endless();
    for (RuleId rule : order_) {
      size_t weight = 0;
      collect(rules_.body(rule), true, rule, weight);
      weights_.push_back(weight);
    }
    find_copied();
    find_left_recursive();
    return std::move(a_);
  }

 private:
  static size_t index(NodeId id) { return static_cast<size_t>(id); }
  static size_t index(RuleId id) { return static_cast<size_t>(id); }

  void reach() {
    std::vector<RuleId> todo{rules_.root};
    a_.reached[index(rules_.root)] = true;
    while (!todo.empty()) {
      const RuleId rule = todo.back();
      todo.pop_back();
      order_.push_back(rule);
      reach_calls(rules_.body(rule), todo);
    }
  }

  void reach_calls(NodeId id, std::vector<RuleId>& todo) {
    const Node& node = rules_.node(id);
    if (node.kind == Kind::Call && !a_.reached[index(node.rule)]) {
      a_.reached[index(node.rule)] = true;
      todo.push_back(node.rule);
    }
    for (NodeId part : node.parts) reach_calls(part, todo);
  }

  // Callees usually come after their callers, so one pass is enough for most grammars.
  void close() {
    for (bool changed = true; changed;) {
      changed = false;
      for (auto rule = order_.rbegin(); rule != order_.rend(); ++rule) {
        const NodeId body = rules_.body(*rule);
        settle(body);
        changed |= a_.can_end[index(body)] != ends_[index(*rule)];
        changed |= a_.nullable[index(body)] != empty_[index(*rule)];
        changed |= a_.fills[index(body)] != fills_[index(*rule)];
        fills_[index(*rule)] = a_.fills[index(body)];
        ends_[index(*rule)] = a_.can_end[index(body)];
        empty_[index(*rule)] = a_.nullable[index(body)];
      }
    }
  }

  void settle(NodeId id) {
    const Node& node = rules_.node(id);
    for (NodeId part : node.parts) settle(part);
    const auto ends = [&](NodeId part) { return a_.can_end[index(part)]; };
    const auto empty = [&](NodeId part) { return a_.nullable[index(part)]; };
    const auto fills = [&](NodeId part) { return ends(part) && a_.fills[index(part)]; };
    const auto set = [&](bool can_end, bool nullable, bool filled) {
      a_.can_end[index(id)] = can_end;
      a_.nullable[index(id)] = nullable;
      a_.fills[index(id)] = can_end && filled;
    };
    const auto begin = node.parts.begin(), end = node.parts.end();
    switch (node.kind) {
      case Kind::Text:
        return set(true, node.text.empty(), !node.text.empty());
      case Kind::Class:
        return set(!node.chars.empty(), false, true);
      case Kind::Call:
        return set(ends_[index(node.rule)], empty_[index(node.rule)], fills_[index(node.rule)]);
      case Kind::Repeat:
        return set(node.least == 0 || ends(*begin), node.least == 0 || empty(*begin),
                   fills(*begin));
      case Kind::Choice:
        return set(std::any_of(begin, end, ends), std::any_of(begin, end, empty),
                   std::any_of(begin, end, fills));
      case Kind::Sequence:
        return set(std::all_of(begin, end, ends), std::all_of(begin, end, empty),
                   std::any_of(begin, end, fills));
      case Kind::Graph: {
        const Graph& graph = rules_.graph(node);
        const auto useful = useful_states(graph, [&](uint32_t part) { return ends(begin[part]); });
        const auto filled = [&](const Graph::Link& link) {
          return useful[link.from] && useful[link.to] && fills(begin[link.part]);
        };
        return set(useful[0], empty_path(node),
                   std::any_of(graph.links.begin(), graph.links.end(), filled));
      }
    }
  }

  // True if the links that may be empty lead from state 0 to an end.
  bool empty_path(const Node& node) const {
    const Graph& graph = rules_.graph(node);
    const std::vector<bool> reached = begin_states(node);
    for (size_t state = 0; state < reached.size(); ++state) {
      if (reached[state] && graph.ends[state]) return true;
    }
    return false;
  }

  // The states that are reached from state 0 without a character.
  std::vector<bool> begin_states(const Node& node) const {
    const auto empty = [&](uint32_t part) { return a_.nullable[index(node.parts[part])]; };
    return reached_states(rules_.graph(node), empty);
  }

  void refuse_endless() const {
    if (rules_.drop_endless && ends_[index(rules_.root)]) return;
    for (RuleId rule : order_) {
      if (ends_[index(rule)]) continue;
      fail(Exit::Usage, rules_.name(cause(rule)),
           " can never end: each alternative leads back to the rule or to something that nothing "
           "matches; add an alternative that ends");
    }
  }

  // Finds why a rule cannot end: follows a part that cannot end until it leads back to a rule
  // already seen, or to a node that matches nothing.
  RuleId cause(RuleId rule) const {
    std::vector<bool> seen(rules_.size());
    seen[index(rule)] = true;
    NodeId at = rules_.body(rule);
    for (;;) {
      const Node& node = rules_.node(at);
      if (node.kind == Kind::Call) {
        if (seen[index(node.rule)]) return node.rule;
        rule = node.rule;
        seen[index(rule)] = true;
        at = rules_.body(rule);
      } else if (node.parts.empty()) {
        return rule;
      } else {
        const auto stuck = [&](NodeId part) { return !a_.can_end[index(part)]; };
        at = *std::find_if(node.parts.begin(), node.parts.end(), stuck);
      }
    }
  }

  // Collects all calls of a rule, and those that may come first. Returns whether `id` may be empty.
  bool collect(NodeId id, bool first, RuleId rule, size_t& weight) {
    const Node& node = rules_.node(id);
    if (!a_.can_end[index(id)]) return false;
    switch (node.kind) {
      case Kind::Text:
        weight += node.text.size();
        break;
      case Kind::Class:
        weight += node.chars.empty() || node.chars.back().last < 0x80 ? 1 : 8;
        break;
      case Kind::Call:
        calls_[index(rule)].push_back(node.rule);
        if (first) left_[index(rule)].push_back(node.rule);
        weight += 1;
        break;
      case Kind::Repeat: {
        size_t inner = 0;
        collect(node.parts[0], first, rule, inner);
        const size_t copies = node.most == kUnbounded ? size_t{node.least} + 1 : node.most;
        weight += inner * copies;
        break;
      }
      case Kind::Choice:
        for (NodeId part : node.parts) collect(part, first, rule, weight);
        break;
      case Kind::Sequence:
        for (NodeId part : node.parts) first = collect(part, first, rule, weight) && first;
        break;
      case Kind::Graph: {
        const Graph& graph = rules_.graph(node);
        weight += graph.links.size();
        std::vector<bool> leads(node.parts.size());
        if (first) {
          const std::vector<bool> begins = begin_states(node);
          for (const Graph::Link& link : graph.links) {
            if (begins[link.from]) leads[link.part] = true;
          }
        }
        for (size_t i = 0; i < node.parts.size(); ++i) {
          collect(node.parts[i], leads[i], rule, weight);
        }
        break;
      }
    }
    return a_.nullable[index(id)];
  }

  // Repeatedly removes rules that call no remaining rule. The remaining rules are on a cycle of
  // calls or lead to one.
  static std::vector<bool> leading_to_cycles(const std::vector<std::vector<RuleId>>& calls) {
    std::vector<std::vector<size_t>> callers(calls.size());
    std::vector<size_t> open(calls.size()), done;
    for (size_t r = 0; r < calls.size(); ++r) {
      open[r] = calls[r].size();
      if (open[r] == 0) done.push_back(r);
      for (RuleId callee : calls[r]) callers[index(callee)].push_back(r);
    }
    std::vector<bool> left(calls.size(), true);
    while (!done.empty()) {
      const size_t r = done.back();
      done.pop_back();
      left[r] = false;
      for (size_t caller : callers[r]) {
        if (--open[caller] == 0) done.push_back(caller);
      }
    }
    return left;
  }

  void find_copied() {
    const std::vector<bool> recursive = leading_to_cycles(calls_);
    std::vector<size_t> uses(rules_.size());
    for (RuleId rule : order_) {
      for (RuleId callee : calls_[index(rule)]) ++uses[index(callee)];
    }
    for (size_t i = 0; i < order_.size(); ++i) {
      const size_t r = index(order_[i]);
      const bool light = weights_[i] <= kLightWeight && calls_[r].empty();
      a_.copied[r] = !recursive[r] && (uses[r] == 1 || light);
    }
  }

  void find_left_recursive() {
    std::vector<std::vector<RuleId>> callers(left_.size());
    for (size_t r = 0; r < left_.size(); ++r) {
      for (RuleId callee : left_[r]) callers[index(callee)].push_back(static_cast<RuleId>(r));
    }
    const std::vector<bool> to = leading_to_cycles(left_), from = leading_to_cycles(callers);
    for (size_t r = 0; r < left_.size(); ++r) a_.left_recursive[r] = to[r] && from[r];
  }

  const Rules& rules_;
  Analysis a_;
  std::vector<RuleId> order_;               // rules that the root reaches
  std::vector<size_t> weights_;             // approximate number of states of each rule
  std::vector<bool> ends_, empty_, fills_;  // one per rule
  std::vector<std::vector<RuleId>> calls_, left_;
};

}  // namespace

std::vector<bool> reached_states(const Graph& graph,
                                 const std::function<bool(uint32_t part)>& passes) {
  // Links by the state from which they start.
  std::vector<uint32_t> begins(graph.ends.size() + 1);
  for (const Graph::Link& link : graph.links) ++begins[link.from + 1];
  for (size_t i = 1; i < begins.size(); ++i) begins[i] += begins[i - 1];
  std::vector<uint32_t> sorted(graph.links.size()), next(begins.begin(), begins.end() - 1);
  for (uint32_t i = 0; i < graph.links.size(); ++i) sorted[next[graph.links[i].from]++] = i;
  std::vector<bool> reached(graph.ends.size());
  std::vector<uint32_t> todo{0};
  reached[0] = true;
  while (!todo.empty()) {
    const uint32_t state = todo.back();
    todo.pop_back();
    for (uint32_t i = begins[state]; i < begins[state + 1]; ++i) {
      const Graph::Link& link = graph.links[sorted[i]];
      if (reached[link.to] || !passes(link.part)) continue;
      reached[link.to] = true;
      todo.push_back(link.to);
    }
  }
  return reached;
}

std::vector<bool> useful_states(const Graph& graph,
                                const std::function<bool(uint32_t part)>& passes) {
  const std::vector<bool> reached = reached_states(graph, passes);
  // The same from the ends backwards: a new state 0 leads to all ends.
  Graph back;
  back.ends.resize(graph.ends.size() + 1);
  const uint32_t always = UINT32_MAX;
  for (const Graph::Link& link : graph.links) {
    back.links.push_back({link.to + 1, link.from + 1, link.part});
  }
  for (uint32_t state = 0; state < graph.ends.size(); ++state) {
    if (graph.ends[state]) back.links.push_back({0, state + 1, always});
  }
  const std::vector<bool> ending =
      reached_states(back, [&](uint32_t part) { return part == always || passes(part); });
  std::vector<bool> useful(graph.ends.size());
  for (size_t state = 0; state < useful.size(); ++state) {
    useful[state] = reached[state] && ending[state + 1];
  }
  if (!useful[0]) useful.assign(useful.size(), false);
  return useful;
}

Analysis analyse(const Rules& rules) { return Analyser(rules).run(); }

}  // namespace skald::grammar
