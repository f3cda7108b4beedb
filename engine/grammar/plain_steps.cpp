#include "engine/grammar/plain_steps.h"

namespace skald::grammar {
namespace {

// Steps of fewer characters, such as those in a list of texts, are as quickly tried.
constexpr int kLeast = 10;

// The plain characters with which the texts of a part begin.
struct PlainPart {
  PlainSet whole;     // each of these characters is a text of the part
  PlainSet longer;    // those with which longer texts may begin
  bool known = true;  // false: texts may begin with any character, or be empty

  PlainSet touched;  // all with which texts may begin
};

void add_text(std::string_view text, PlainPart& part) {
  if (text.empty()) {
    part.known = false;
    return;
  }
  const auto lead = static_cast<uint8_t>(text[0]);
  if (!may_begin_plain(lead, lead)) return;
  part.longer.add(PlainSet::group(lead));
  part.touched.add(PlainSet::group(lead));
}

// `calls`: the calls that may still be followed, as rules may call themselves.
void add_part(const Rules& rules, const Node& node, int calls, PlainPart& part) {
  switch (node.kind) {
    case Node::Kind::Class:
      part.whole.add(PlainSet::within(node.chars));
      part.touched.add(PlainSet::touched(node.chars));
      return;
    case Node::Kind::Text:
      add_text(node.text, part);
      return;
    case Node::Kind::Choice:
      for (const NodeId one : node.parts) add_part(rules, rules.node(one), calls, part);
      return;
    case Node::Kind::Sequence: {
      PlainPart first{.known = !node.parts.empty()};
      if (first.known) add_part(rules, rules.node(node.parts[0]), calls, first);
      part.known &= first.known;
      part.longer.add(first.touched);
      part.touched.add(first.touched);
      return;
    }
    case Node::Kind::Call:
      if (calls > 0) return add_part(rules, rules.node(rules.body(node.rule)), calls - 1, part);
      break;
    default:
      break;
  }
  part.known = false;
}

PlainPart part_of(const Rules& rules, NodeId id) {
  PlainPart part;
  constexpr int kMostCalls = 4;
  add_part(rules, rules.node(id), kMostCalls, part);
  part.whole.remove(part.longer);
  return part;
}

}  // namespace

std::vector<PlainStep> plain_steps(const Rules& rules, const Node& graph_node,
                                   const std::vector<bool>& passes,
                                   const std::vector<bool>& useful) {
  const Graph& graph = rules.graph(graph_node);
  std::vector<PlainPart> parts;
  bool any = false;
  for (const NodeId part : graph_node.parts) {
    parts.push_back(part_of(rules, part));
    any |= parts.back().whole.ascii() >= kLeast;
  }
  if (!any) return {};
  struct Best {
    const Graph::Link* link = nullptr;
    int ascii = 0;
    bool known = true;
    PlainSet others, taken;  // what other links take, and what all of them take
  };
  std::vector<Best> bests(graph.ends.size());
  const auto each_link = [&](const auto& visit) {
    for (const Graph::Link& link : graph.links) {
      if (useful[link.from] && useful[link.to] && passes[link.part]) {
        visit(link, parts[link.part], bests[link.from]);
      }
    }
  };
  each_link([](const Graph::Link& link, const PlainPart& part, Best& best) {
    best.known &= part.known;
    if (const int ascii = part.whole.ascii(); ascii > best.ascii) {
      best.link = &link;
      best.ascii = ascii;
    }
  });
  each_link([](const Graph::Link& link, const PlainPart& part, Best& best) {
    best.taken.add(part.touched);
    if (&link != best.link) best.others.add(part.touched);
  });
  std::vector<PlainStep> steps(bests.size());
  for (size_t i = 0; i < bests.size(); ++i) {
    if (!bests[i].known || bests[i].ascii < kLeast) continue;
    steps[i] = {{parts[bests[i].link->part].whole, bests[i].taken}, bests[i].link->to};
    steps[i].chars.usual.remove(bests[i].others);
  }
  return steps;
}

PlainChars plain_chars_of(const Rules& rules, NodeId part) {
  const PlainPart plain = part_of(rules, part);
  return plain.known ? PlainChars{plain.whole, plain.touched} : PlainChars{};
}

}  // namespace skald::grammar
