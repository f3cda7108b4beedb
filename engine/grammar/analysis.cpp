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
  explicit Analyser(const Rules& rules)
      : rules_(rules), callers_(rules.size()), calls_(rules.size()), left_(rules.size()) {
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
    std::vector<RuleId> unvisited{rules_.root};
    a_.reached[index(rules_.root)] = true;
    while (!unvisited.empty()) {
      const RuleId rule = unvisited.back();
      unvisited.pop_back();
      order_.push_back(rule);
      reach_calls(rule, rules_.body(rule), unvisited);
    }
  }

  void reach_calls(RuleId caller, NodeId id, std::vector<RuleId>& unvisited) {
    const Node& node = rules_.node(id);
    if (node.kind == Kind::Call) {
      callers_[index(node.rule)].push_back(caller);
      if (!a_.reached[index(node.rule)]) {
        a_.reached[index(node.rule)] = true;
        unvisited.push_back(node.rule);
      }
    }
    for (NodeId part : node.parts) reach_calls(caller, part, unvisited);
  }

  // Settles all rules, and again those that call a rule whose properties changed. The last rule is
  // the first: callees usually come after their callers, so most rules are settled once.
  void close() {
    std::vector<RuleId> unvisited = order_;
    std::vector<bool> waits = a_.reached;
    while (!unvisited.empty()) {
      const RuleId rule = unvisited.back();
      unvisited.pop_back();
      waits[index(rule)] = false;
      const NodeId body = rules_.body(rule);
      settle(body);
      const bool same = a_.can_end[index(body)] == ends_[index(rule)] &&
                        a_.nullable[index(body)] == empty_[index(rule)] &&
                        a_.fills[index(body)] == fills_[index(rule)];
      if (same) continue;
      fills_[index(rule)] = a_.fills[index(body)];
      ends_[index(rule)] = a_.can_end[index(body)];
      empty_[index(rule)] = a_.nullable[index(body)];
      for (const RuleId caller : callers_[index(rule)]) {
        if (waits[index(caller)]) continue;
        waits[index(caller)] = true;
        unvisited.push_back(caller);
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
        const auto useful = useful_states(graph, of_parts(node, a_.can_end));
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
    return reached_states(rules_.graph(node), of_parts(node, a_.nullable));
  }
  static std::vector<bool> of_parts(const Node& node, const std::vector<bool>& property) {
    std::vector<bool> result;
    result.reserve(node.parts.size());
    for (const NodeId part : node.parts) result.push_back(property[index(part)]);
    return result;
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
  std::vector<RuleId> order_;                 // rules that the root reaches
  std::vector<size_t> weights_;               // approximate number of states of each rule
  std::vector<bool> ends_, empty_, fills_;    // one per rule
  std::vector<std::vector<RuleId>> callers_;  // of each rule
  std::vector<std::vector<RuleId>> calls_, left_;
};

}  // namespace

namespace {

// The states that are reached from those that are `reached` already, by links from state from() to
// state to(). Links in the order of their states, which is usual, need few rounds; others a search.
template <class From, class To>
void reach(size_t links, From from, To to, std::vector<bool>& reached) {
  constexpr int kRounds = 4;
  for (int round = 0; round < kRounds; ++round) {
    bool changed = false;
    for (size_t i = 0; i < links; ++i) {
      if (!reached[from(i)] || reached[to(i)]) continue;
      reached[to(i)] = changed = true;
    }
    if (!changed) return;
  }
  std::vector<size_t> begins(reached.size() + 1), sorted(links), unvisited;
  for (size_t i = 0; i < links; ++i) ++begins[from(i) + 1];
  for (size_t i = 1; i < begins.size(); ++i) begins[i] += begins[i - 1];
  std::vector<size_t> next(begins.begin(), begins.end() - 1);
  for (size_t i = 0; i < links; ++i) sorted[next[from(i)]++] = i;
  for (size_t state = 0; state < reached.size(); ++state) {
    if (reached[state]) unvisited.push_back(state);
  }
  while (!unvisited.empty()) {
    const size_t state = unvisited.back();
    unvisited.pop_back();
    for (size_t i = begins[state]; i < begins[state + 1]; ++i) {
      const size_t target = to(sorted[i]);
      if (reached[target]) continue;
      reached[target] = true;
      unvisited.push_back(target);
    }
  }
}

}  // namespace

std::vector<bool> reached_states(const Graph& graph, const std::vector<bool>& passes) {
  std::vector<Graph::Link> links;
  links.reserve(graph.links.size());
  for (const Graph::Link& link : graph.links) {
    if (passes[link.part]) links.push_back(link);
  }
  std::vector<bool> reached(graph.ends.size());
  reached[0] = true;
  reach(
      links.size(), [&](size_t i) { return links[i].from; }, [&](size_t i) { return links[i].to; },
      reached);
  return reached;
}

std::vector<bool> useful_states(const Graph& graph, const std::vector<bool>& passes) {
  std::vector<bool> useful = reached_states(graph, passes), ending = graph.ends;
  std::vector<Graph::Link> back;  // from the last link to the first
  back.reserve(graph.links.size());
  for (auto link = graph.links.rbegin(); link != graph.links.rend(); ++link) {
    if (passes[link->part]) back.push_back(*link);
  }
  reach(
      back.size(), [&](size_t i) { return back[i].to; }, [&](size_t i) { return back[i].from; },
      ending);
  for (size_t state = 0; state < useful.size(); ++state) {
    useful[state] = useful[state] && ending[state];
  }
  if (!useful[0]) useful.assign(useful.size(), false);
  return useful;
}

Analysis analyse(const Rules& rules) { return Analyser(rules).run(); }

}  // namespace skald::grammar
