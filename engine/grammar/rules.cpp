#include "engine/grammar/rules.h"

#include <algorithm>

#include "engine/base/error.h"

namespace skald::grammar {
namespace {

constexpr size_t kMostNodes = size_t{1} << 20, kMostRules = size_t{1} << 17;
constexpr size_t kMostLinks = size_t{1} << 21;
constexpr int kMostDepth = 1000;

uint32_t times(uint32_t a, uint32_t b) {
  if (a == 0 || b == 0) return 0;
  if (a == kUnbounded || b == kUnbounded) return kUnbounded;
  return static_cast<uint32_t>(std::min<uint64_t>(uint64_t{a} * b, kUnbounded - 1));
}

}  // namespace

CharClass normalized(CharClass ranges) {
  CharClass split;
  for (CharRange r : ranges) {
    r.last = std::min(r.last, kLastCodePoint);
    if (r.first < kFirstSurrogate && r.first <= r.last) {
      split.push_back({r.first, std::min<char32_t>(r.last, kFirstSurrogate - 1)});
    }
    if (r.last > kLastSurrogate && r.first <= r.last) {
      split.push_back({std::max<char32_t>(r.first, kLastSurrogate + 1), r.last});
    }
  }
  std::sort(split.begin(), split.end(),
            [](const CharRange& a, const CharRange& b) { return a.first < b.first; });
  CharClass result;
  for (const CharRange& r : split) {
    if (!result.empty() && r.first <= result.back().last + 1) {
      result.back().last = std::max(result.back().last, r.last);
    } else {
      result.push_back(r);
    }
  }
  return result;
}

CharClass complement(const CharClass& ranges) {
  CharClass result;
  char32_t next = 0;
  for (const CharRange& r : normalized(ranges)) {
    if (r.first > next) result.push_back({next, r.first - 1});
    next = r.last + 1;
  }
  if (next <= kLastCodePoint) result.push_back({next, kLastCodePoint});
  return normalized(std::move(result));
}

CharClass intersection(const CharClass& a, const CharClass& b) {
  CharClass outside = complement(a);
  const CharClass more = complement(b);
  outside.insert(outside.end(), more.begin(), more.end());
  return complement(outside);
}

bool contains(std::span<const CharRange> ranges, char32_t c) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [c](const CharRange& r) { return r.first <= c && c <= r.last; });
}

CharClass any_char() { return normalized({{0, kLastCodePoint}}); }

RuleId Rules::add(std::string name) {
  if (rules_.size() >= kMostRules) {
    fail(Exit::Usage, "the grammar is too large: more than ", kMostRules, " rules");
  }
  rules_.push_back({std::move(name)});
  return static_cast<RuleId>(rules_.size() - 1);
}

void Rules::rename(RuleId rule, std::string name) {
  rules_[static_cast<size_t>(rule)].name = std::move(name);
}

void Rules::define(RuleId rule, NodeId body) {
  Rule& r = rules_[static_cast<size_t>(rule)];
  check(!r.defined, "a rule is defined once");
  r.defined = true;
  r.body = body;
}

NodeId Rules::body(RuleId rule) const {
  const Rule& r = rules_[static_cast<size_t>(rule)];
  check(r.defined, "a rule with a body");
  return r.body;
}

template <class T>
std::span<const T> Rules::keep(std::span<const T> list) {
  if (list.empty()) return {};
  T* copy = static_cast<T*>(memory_->allocate(list.size_bytes(), alignof(T)));
  std::uninitialized_copy(list.begin(), list.end(), copy);
  return {copy, list.size()};
}

NodeId Rules::add_node(Node node) {
  if (nodes_.size() >= kMostNodes) {
    fail(Exit::Usage, "the grammar is too large: more than ", kMostNodes, " nodes");
  }
  int depth = 0;
  for (NodeId part : node.parts) depth = std::max<int>(depth, this->node(part).depth);
  if (depth >= kMostDepth) {
    fail(Exit::Usage, "the grammar nests too deep: more than ", kMostDepth, " levels");
  }
  node.depth = static_cast<uint16_t>(depth + 1);
  node.parts = keep(node.parts);
  node.chars = keep(node.chars);
  const std::span<const char> text = keep(std::span<const char>(node.text));
  node.text = {text.data(), text.size()};
  nodes_.push_back(node);
  return static_cast<NodeId>(nodes_.size() - 1);
}

NodeId Rules::text(std::string_view bytes) {
  return add_node({.kind = Node::Kind::Text, .depth = 1, .text = bytes});
}

NodeId Rules::one_of(CharClass chars) {
  const CharClass kept = normalized(std::move(chars));
  return add_node({.kind = Node::Kind::Class, .depth = 1, .chars = kept});
}

NodeId Rules::token(TokenReference token) {
  auto known = std::find(tokens_.begin(), tokens_.end(), token);
  if (known == tokens_.end()) {
    if (tokens_.size() == kMostTokenReferences) {
      fail(Exit::Usage, "the grammar names more than ", kMostTokenReferences, " tokens");
    }
    tokens_.push_back(std::move(token));
    known = tokens_.end() - 1;
  }
  return text(token_reference_bytes(static_cast<size_t>(known - tokens_.begin())));
}

NodeId Rules::sequence(const std::vector<NodeId>& parts) {
  if (parts.size() == 1) return parts.front();
  return add_node({.kind = Node::Kind::Sequence, .depth = 1, .parts = parts});
}

NodeId Rules::choice(const std::vector<NodeId>& parts) {
  if (parts.size() == 1) return parts.front();
  return add_node({.kind = Node::Kind::Choice, .depth = 1, .parts = parts});
}

NodeId Rules::repeat(NodeId part, uint32_t least, uint32_t most) {
  check(least <= most, "bounds of a repetition");
  if (least > kMostRepeats || (most != kUnbounded && most > kMostRepeats)) {
    fail(Exit::Usage, "the grammar repeats a part ", least > kMostRepeats ? least : most,
         " times; expected at most ", kMostRepeats);
  }
  if (most == 0) return empty();
  if (least == 1 && most == 1) return part;
  // (x{0,3}){2,5} becomes x{0,15}, and (x+)* becomes x*. Nested repetitions are slow otherwise,
  // because there are many ways to count.
  const Node inner = node(part);
  if (inner.kind == Node::Kind::Repeat) {
    const bool from_0 = inner.least == 0, plus = inner.least == 1 && inner.most == kUnbounded;
    const uint32_t product = times(inner.most, most);
    const bool countable = product == kUnbounded || product <= kMostRepeats;
    if (from_0 && countable) return repeat(inner.parts[0], 0, product);
    if (plus) return repeat(inner.parts[0], least, kUnbounded);
  }
  return add_node(
      {.kind = Node::Kind::Repeat, .depth = 1, .least = least, .most = most, .parts = {&part, 1}});
}

NodeId Rules::graph(const std::vector<NodeId>& parts, Graph graph) {
  links_ += graph.links.size();
  if (links_ > kMostLinks) {
    fail(Exit::Usage, "the grammar is too large: more than ", kMostLinks, " links in graphs");
  }
  graphs_.push_back(std::move(graph));
  return add_node({.kind = Node::Kind::Graph,
                   .depth = 1,
                   .least = static_cast<uint32_t>(graphs_.size() - 1),
                   .parts = parts});
}

NodeId Rules::call(RuleId rule) {
  return add_node({.kind = Node::Kind::Call, .depth = 1, .rule = rule});
}

NodeId Rules::include(const Rules& other) {
  check(other.tokens_.empty(), "a grammar without tokens of its own");
  const size_t first_node = nodes_.size(), first_rule = rules_.size();
  const auto moved = [&](NodeId id) {
    return static_cast<NodeId>(first_node + static_cast<size_t>(id));
  };
  const auto moved_rule = [&](RuleId id) {
    return static_cast<RuleId>(first_rule + static_cast<size_t>(id));
  };
  std::vector<NodeId> parts;
  for (Node node : other.nodes_) {  // parts come before the nodes that have them
    parts.clear();
    for (const NodeId part : node.parts) parts.push_back(moved(part));
    node.parts = parts;
    node.rule = moved_rule(node.rule);
    if (node.kind == Node::Kind::Graph) {
      graph(parts, other.graph(node));
    } else {
      add_node(node);
    }
  }
  for (const Rule& rule : other.rules_) {
    const RuleId copy = add(rule.name);
    if (rule.defined) define(copy, moved(rule.body));
  }
  drop_endless |= other.drop_endless;
  return call(moved_rule(other.root));
}

}  // namespace skald::grammar
