#include "engine/grammar/automaton.h"

#include <algorithm>
#include <unordered_map>

#include "engine/base/error.h"
#include "engine/grammar/analysis.h"
#include "engine/grammar/edge_lists.h"
#include "engine/grammar/plain_steps.h"
#include "engine/grammar/utf8_ranges.h"

namespace skald::grammar {
namespace {

using Kind = Node::Kind;

constexpr size_t kMostStates = size_t{1} << 19;
constexpr uint32_t kFewCopies = 16;  // up to this number, copies are built one by one
// Limit if the part may be empty, because all copies are tried at once
constexpr uint32_t kMostEmptyCopies = 256;
constexpr int kMostBuildDepth = 4000;

[[noreturn]] void fail_too_large(const std::string& name) {
  fail(Exit::Usage, name, " is too large: the grammar needs more than ", kMostStates,
       " states; repeat less, or use fewer rules");
}

}  // namespace

class Builder {
 public:
  Builder(const Rules& rules, Automaton& out)
      : rules_(rules), analysis_(analyse(rules)), out_(out), ends_(rules.size(), kNoState) {}

  void run() {
    out_.starts_.resize(rules_.size());
    out_.nullable_.resize(rules_.size());
    out_.order_.resize(rules_.size());
    build_begin();
    for (size_t i = 0; i < needed_.size(); ++i) build_rule(needed_[i]);
    for (RuleId rule : needed_) find_start(index(rule));
    remove_left_recursion();
    sort_rules();
    out_.edges_ = lists_.table();
    find_byte_classes();
  }

 private:
  static uint32_t index(RuleId id) { return static_cast<uint32_t>(id); }
  bool can_end(NodeId id) const { return analysis_.can_end[static_cast<size_t>(id)]; }
  bool nullable(NodeId id) const { return analysis_.nullable[static_cast<size_t>(id)]; }

  void need(RuleId rule) {
    if (begins_.try_emplace(index(rule), kNoState).second) needed_.push_back(rule);
  }

  State add_state() {
    if (lists_.size() + (in_copy() ? space_->size() : 0) >= kMostStates) {
      fail_too_large(rules_.name(rule_));
    }
    return space_->add_state();
  }
  bool in_copy() const { return space_ != &lists_; }
  void add_edge(State from, Edge edge) { space_->add(from, edge); }
  void add_empty(State from, State to) { add_edge(from, {Edge::Kind::Empty, 0, 0, 0, to}); }
  void add_bytes(State from, ByteRange r, State to) {
    add_edge(from, {Edge::Kind::Byte, r.first, r.last, 0, to});
  }

  void build_begin() {
    rule_ = rules_.root;
    need(rules_.root);
    out_.begin_ = add_state();
    outer_end_ = add_state();
    const NodeId body = rules_.body(rules_.root);
    if (analysis_.fills[static_cast<size_t>(body)]) {
      add_edge(out_.begin_, {Edge::Kind::Call, 0, 0, index(rules_.root), outer_end_});
    }
    if (nullable(body)) add_empty(out_.begin_, outer_end_);
  }

  void build_rule(RuleId rule) {
    rule_ = rule;
    const NodeId body = rules_.body(rule);
    const State begin = add_state();
    begins_[index(rule)] = begin;
    const State end = build(body, begin);
    ends_[index(rule)] = end;
    out_.nullable_[index(rule)] = nullable(body);
  }

  // Builds a node after state `from`; returns the state after the node.
  State build(NodeId id, State from) {
    const Node& node = rules_.node(id);
    ++depth_;
    State to = from;
    switch (node.kind) {
      case Kind::Text:
        for (char c : node.text) {
          const State next = add_state();
          const auto byte = static_cast<uint8_t>(c);
          add_bytes(to, {byte, byte}, next);
          to = next;
        }
        break;
      case Kind::Class:
        to = add_state();
        build_class(node.chars, from, to);
        break;
      case Kind::Sequence:
        for (NodeId part : node.parts) to = build(part, to);
        break;
      case Kind::Choice:
        to = add_state();
        for (NodeId part : node.parts) {
          if (can_end(part)) add_empty(build(part, from), to);
        }
        break;
      case Kind::Repeat:
        to = build_repeat(node, from);
        break;
      case Kind::Call:
        to = build_call(node.rule, from);
        break;
      case Kind::Graph:
        to = build_graph(node, from);
        break;
    }
    --depth_;
    return to;
  }

  State build_call(RuleId rule, State from) {
    if (analysis_.copied[index(rule)] && depth_ < kMostBuildDepth) {
      return build(rules_.body(rule), from);
    }
    const NodeId body = rules_.body(rule);
    if (!analysis_.fills[static_cast<size_t>(body)]) return from;  // matches only the empty string
    need(rule);
    const State to = add_state();
    add_edge(from, {Edge::Kind::Call, 0, 0, index(rule), to});
    if (nullable(body)) add_empty(from, to);
    return to;
  }

  State build_graph(const Node& node, State from) {
    const Graph& graph = rules_.graph(node);
    std::vector<bool> passes;
    for (const NodeId part : node.parts) passes.push_back(can_end(part));
    const std::vector<bool> useful = useful_states(graph, passes);
    std::vector<State> states(graph.ends.size(), kNoState);
    const State to = add_state();
    for (size_t i = 0; i < states.size(); ++i) {
      if (!useful[i]) continue;
      states[i] = add_state();
      if (graph.ends[i]) add_empty(states[i], to);
    }
    add_empty(from, states[0]);
    if (!in_copy()) add_plain_facts(graph, plain_steps(rules_, node, passes, useful), states);
    // Links of the same part to the same state share what is built for them: the first one builds
    // it, the second one builds it again at a state of its own, from which the others copy edges.
    struct Known {
      State entry = kNoState;
      bool again = false;
    };
    std::unordered_map<uint64_t, Known> known;
    for (const Graph::Link& link : graph.links) {
      const NodeId id = node.parts[link.part];
      const State begin = states[link.from], end = states[link.to];
      if (begin == kNoState || end == kNoState || !can_end(id)) continue;
      if (build_bytes(id, begin, end)) continue;
      Known& same = known[uint64_t{link.part} << 32 | link.to];
      if (!same.again) {
        same.again = true;
        build_part(id, begin, end);
        continue;
      }
      if (same.entry == kNoState) {
        same.entry = add_state();
        build_part(id, same.entry, end);
      }
      space_->each(same.entry, [&](const Edge& edge) { add_edge(begin, edge); });
    }
    return to;
  }

  void add_plain_facts(const Graph& graph, std::span<const PlainStep> steps,
                       std::span<const State> states) {
    for (size_t i = 0; i < states.size(); ++i) {
      if (states[i] == kNoState) continue;
      if (!graph.open.empty()) out_.plain_.set_open(states[i], graph.open[i]);
      if (steps.empty() || steps[i].to == PlainStep::kUnknown) continue;
      out_.plain_.add(states[i], steps[i].chars, states[steps[i].to]);
    }
  }

  // A part that is one byte needs no state of its own. Returns false for other parts.
  bool build_bytes(NodeId id, State begin, State end) {
    const Node& part = rules_.node(id);
    if (part.kind == Kind::Text && part.text.size() == 1) {
      const auto byte = static_cast<uint8_t>(part.text[0]);
      add_bytes(begin, {byte, byte}, end);
      return true;
    }
    if (part.kind != Kind::Class || part.chars.back().last >= 0x80) return false;
    build_class(part.chars, begin, end);
    return true;
  }

  void build_part(NodeId id, State begin, State end) {
    const Node& part = rules_.node(id);
    if (part.kind == Kind::Class) {
      build_class(part.chars, begin, end);
    } else {
      add_empty(build(id, begin), end);
    }
  }

  void build_class(std::span<const CharRange> chars, State from, State to) {
    // tails[n]: the state from which any n continuation bytes complete the character.
    std::array<State, 4> tails = {to, kNoState, kNoState, kNoState};
    const auto tail = [&](int bytes) {
      for (int n = 1; n <= bytes; ++n) {
        if (tails[n] != kNoState) continue;
        tails[n] = add_state();
        add_bytes(tails[n], {0x80, 0xBF}, tails[n - 1]);
      }
      return tails[bytes];
    };
    // Characters with the same first bytes share the states after those. The ranges are sorted.
    Utf8Range before;
    std::array<State, 4> after = {};  // its states
    for (const Utf8Range& range : utf8_ranges(chars)) {
      int fixed = range.length;  // leading bytes with a restricted range
      while (fixed > 1 && range.bytes[fixed - 1] == ByteRange{0x80, 0xBF}) --fixed;
      State at = from;
      bool same = true;
      for (int i = 0; i < fixed; ++i) {
        same = same && i + 1 < before.length && i + 1 < fixed && range.bytes[i] == before.bytes[i];
        if (!same) {
          after[i] = i + 1 < fixed ? add_state() : tail(range.length - fixed);
          add_bytes(at, range.bytes[i], after[i]);
        }
        at = after[i];
      }
      before = range;
      before.length = fixed;
    }
  }

  State build_repeat(const Node& node, State from) {
    const NodeId part = node.parts[0];
    if (!can_end(part)) return from;  // `least` is 0 here
    const uint32_t least = nullable(part) ? 0 : node.least;
    const uint32_t most = node.most == kUnbounded ? least : node.most;
    if (nullable(part) && most > kMostEmptyCopies) {
      fail(Exit::Usage, rules_.name(rule_), " repeats a part that may be empty ", most,
           " times; expected at most ", kMostEmptyCopies, ", or no upper limit");
    }
    const State at = build_copies(part, least, most, from);
    if (node.most != kUnbounded) return at;
    const State loop = add_state();
    add_empty(at, loop);
    add_empty(build(part, loop), loop);
    return loop;
  }

  State build_copies(NodeId part, uint32_t least, uint32_t most, State from) {
    const bool apart = most >= kFewCopies && !in_copy() && !analysis_.left_recursive[index(rule_)];
    if (apart) return build_apart(part, least, most, from);
    State at = from;
    for (uint32_t i = 0; i < least; ++i) at = build(part, at);
    if (least == most) return at;
    const State to = add_state();
    for (uint32_t i = least; i < most; ++i) {
      add_empty(at, to);
      at = build(part, at);
    }
    add_empty(at, to);
    return to;
  }

  State build_apart(NodeId part, uint32_t least, uint32_t most, State from) {
    EdgeLists edges;
    space_ = &edges;
    const State begin = add_state();
    Repeated r;
    r.end = build(part, begin);
    space_ = &lists_;
    r.base = next_copies_;
    r.stride = static_cast<uint32_t>(edges.size());
    r.copies = most;
    r.least = least;
    r.may_be_empty = nullable(part);
    r.edges = edges.table();
    r.chars = plain_chars_of(rules_, part);
    const uint64_t next = uint64_t{r.base} + uint64_t{r.stride} * most;
    if (next >= kNoState) fail_too_large(rules_.name(rule_));
    next_copies_ = static_cast<State>(next);
    r.after = add_state();
    add_empty(from, r.base);
    if (least == 0) add_empty(from, r.after);
    out_.repeated_.push_back(std::move(r));
    return out_.repeated_.back().after;
  }

  template <class Visit>
  void each_edge(State state, Visit visit) const {
    if (state < kCopies) {
      lists_.each(state, visit);
    } else {
      out_.each_edge(state, visit);
    }
  }

  void find_start(uint32_t rule) {
    std::vector<State> unvisited{begins_[rule]}, seen{begins_[rule]};
    while (!unvisited.empty()) {
      const State state = unvisited.back();
      unvisited.pop_back();
      each_edge(state, [&](const Edge& edge) {
        if (edge.kind != Edge::Kind::Empty) {
          out_.starts_[rule].push_back(edge);
        } else if (std::find(seen.begin(), seen.end(), edge.target) == seen.end()) {
          seen.push_back(edge.target);
          unvisited.push_back(edge.target);
        }
      });
    }
  }

  // Paull's algorithm. The rules that may begin with each other get an order. A leading call of an
  // earlier rule is replaced by what that rule begins with, and a leading call of the rule itself
  // by a loop from the rule's end: a ::= a x | y becomes a ::= y x*.
  void remove_left_recursion() {
    std::vector<uint32_t> group;
    for (RuleId rule : needed_) {
      if (analysis_.left_recursive[index(rule)]) group.push_back(index(rule));
    }
    std::vector<int> place(rules_.size(), -1);
    for (size_t i = 0; i < group.size(); ++i) place[group[i]] = static_cast<int>(i);
    for (size_t i = 0; i < group.size(); ++i) {
      rule_ = static_cast<RuleId>(group[i]);
      std::vector<Edge> unvisited = std::move(out_.starts_[group[i]]), done;
      while (!unvisited.empty()) {
        const Edge edge = unvisited.back();
        unvisited.pop_back();
        const int at = edge.kind == Edge::Kind::Call ? place[edge.rule] : -1;
        if (at == static_cast<int>(i)) {
          add_empty(ends_[group[i]], edge.target);
        } else if (at >= 0 && at < static_cast<int>(i)) {
          copy_rule(edge.rule, edge.target, unvisited);
        } else {
          done.push_back(edge);
        }
      }
      out_.starts_[group[i]] = std::move(done);
    }
  }

  // Copies the states of `rule` so that they end in `to`; appends the edges by which it begins.
  void copy_rule(uint32_t rule, State to, std::vector<Edge>& begins) {
    std::unordered_map<State, State> copies;
    std::vector<State> unvisited;
    const auto copy_of = [&](State state) {
      const auto [found, is_new] = copies.try_emplace(state, kNoState);
      if (is_new) {
        found->second = add_state();
        unvisited.push_back(state);
      }
      return found->second;
    };
    for (Edge edge : std::vector<Edge>(out_.starts_[rule])) {
      edge.target = copy_of(edge.target);
      begins.push_back(edge);
    }
    while (!unvisited.empty()) {
      const State state = unvisited.back();
      unvisited.pop_back();
      const State copy = copies[state];
      if (state == ends_[rule]) add_empty(copy, to);
      lists_.each(state, [&](Edge edge) {
        edge.target = copy_of(edge.target);
        add_edge(copy, edge);
      });
    }
  }

  void sort_rules() {
    std::vector<uint32_t> callers(rules_.size()), ready;
    const auto each_callee = [&](uint32_t rule, auto visit) {
      for (const Edge& edge : out_.starts_[rule]) {
        if (edge.kind == Edge::Kind::Call) visit(edge.rule);
      }
    };
    for (RuleId rule : needed_)
      each_callee(index(rule), [&](uint32_t callee) { ++callers[callee]; });
    for (RuleId rule : needed_) {
      if (callers[index(rule)] == 0) ready.push_back(index(rule));
    }
    uint32_t next = 0;
    while (!ready.empty()) {
      const uint32_t rule = ready.back();
      ready.pop_back();
      out_.order_[rule] = next++;
      each_callee(rule, [&](uint32_t callee) {
        if (--callers[callee] == 0) ready.push_back(callee);
      });
    }
    check(next == needed_.size(), "no left recursion is left");
    out_.ends_.resize(lists_.size());
    out_.ends_[outer_end_] = true;
    for (RuleId rule : needed_) out_.ends_[ends_[index(rule)]] = true;
  }

  void find_byte_classes() {
    std::array<bool, 257> cut = {};
    const auto mark = [&](const Edge& edge) {
      if (edge.kind != Edge::Kind::Byte) return;
      cut[edge.first] = true;
      cut[edge.last + 1] = true;
    };
    for (const Edge& edge : out_.edges_.all()) mark(edge);
    for (const Repeated& r : out_.repeated_) {
      for (const Edge& edge : r.edges.all()) mark(edge);
    }
    int current = 0;
    for (int byte = 0; byte < 256; ++byte) {
      if (byte > 0 && cut[byte]) ++current;
      out_.byte_class_[byte] = static_cast<uint8_t>(current);
    }
    out_.byte_classes_ = current + 1;
  }

  const Rules& rules_;
  const Analysis analysis_;
  Automaton& out_;
  EdgeLists lists_;             // of the automaton's states
  EdgeLists* space_ = &lists_;  // where states are added: there, or in one copy of a Repeated
  RuleId rule_ = {};            // the rule being built
  int depth_ = 0;
  State next_copies_ = kCopies;
  std::vector<RuleId> needed_;  // rules that are called, not built in place
  std::unordered_map<uint32_t, State> begins_;
  std::vector<State> ends_;
  State outer_end_ = 0;
};

Automaton::Automaton(const Rules& rules) { Builder(rules, *this).run(); }

const PlainChars* Automaton::plain_chars(State state, State& next) const {
  if (state >= kCopies) {
    const Repeated& r = repeated(state);
    if ((state - r.base) % r.stride != 0 || r.chars.usual == PlainSet()) return nullptr;
    next = state + r.end;
    return &r.chars;
  }
  return plain_.chars(state, next);
}

bool Automaton::takes_plain(State state) const {
  bool takes = false;
  each_edge(state, [&](const Edge& edge) {
    takes |= edge.kind == Edge::Kind::Call ||
             (edge.kind == Edge::Kind::Byte && may_begin_plain(edge.first, edge.last));
  });
  return takes;
}

const Repeated& Automaton::repeated(State state) const {
  const auto above =
      std::upper_bound(repeated_.begin(), repeated_.end(), state,
                       [](State value, const Repeated& r) { return value < r.base; });
  return *(above - 1);
}

State Automaton::representative(State state, uint32_t bytes) const {
  if (state < kCopies) return state;
  const Repeated& r = repeated(state);
  if (r.may_be_empty) return state;
  const uint64_t copy = (state - r.base) / r.stride;
  const uint64_t reach = copy + bytes + 1;  // the last copy that can end within `bytes` bytes
  uint64_t same = copy;
  if (reach < r.least) {
    same = 0;
  } else if (copy + 1 >= r.least && reach < r.copies) {
    same = r.least > 0 ? r.least - 1 : 0;
  }
  return static_cast<State>(state - (copy - same) * r.stride);
}

}  // namespace skald::grammar
