// A grammar as its front ends write it (gbnf.h, regex.h, the JSON schemas in app/): rules made of
// strings, character classes, sequences, alternatives, repetitions and calls of rules. Nodes are
// made bottom-up and belong to their Rules; automaton.h turns them into an automaton. Sizes are
// bounded: a larger grammar is an Error(Exit::Usage).
#pragma once

#include <cstdint>
#include <memory>
#include <memory_resource>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace skald::grammar {

struct CharRange {
  char32_t first, last;
  bool operator==(const CharRange&) const = default;
};
using CharClass = std::vector<CharRange>;  // ranges of code points

inline constexpr char32_t kLastCodePoint = 0x10FFFF;
inline constexpr char32_t kFirstSurrogate = 0xD800, kLastSurrogate = 0xDFFF;
inline constexpr uint32_t kUnbounded = UINT32_MAX;
inline constexpr uint32_t kMostRepeats = 1u << 24;

// Sorted, without overlaps and without surrogates, which UTF-8 cannot contain.
CharClass normalized(CharClass ranges);
CharClass complement(const CharClass& ranges);
CharClass intersection(const CharClass& a, const CharClass& b);
bool contains(std::span<const CharRange> normalized_ranges, char32_t c);
CharClass any_char();

enum class NodeId : uint32_t {};
enum class RuleId : uint32_t {};

// States and links between them. A text belongs to the graph if its pieces match the nodes of a
// path from state 0 to an end.
struct Graph {
  struct Link {
    uint32_t from, to;
    uint32_t part;  // index of a node
  };
  std::vector<Link> links;
  std::vector<bool> ends;  // [states]
  // [states], or nothing if not known: so many plain characters (plain_chars.h) may follow a state,
  // whichever they are, and the text can still be completed. kUnbounded: any number.
  std::vector<uint32_t> open = {};
};

// What the views refer to lives as long as the Rules.
struct Node {
  enum class Kind : uint8_t { Text, Class, Sequence, Choice, Repeat, Call, Graph };
  Kind kind;
  uint16_t depth;                         // depth of the tree, including this node
  uint32_t least = 0, most = 0;           // Repeat; Graph: least is its index
  RuleId rule = {};                       // Call
  std::string_view text = {};             // Text: bytes
  std::span<const CharRange> chars = {};  // Class, normalized
  std::span<const NodeId> parts = {};     // Sequence, Choice, Repeat (one), Graph (what links name)
};

// A token that stands in a grammar itself, whatever its text: by number or by name.
struct TokenReference {
  int32_t id = -1;        // -1: by name
  std::string name = {};  // as the vocabulary writes it: "<think>"
  bool others = false;    // any token but this one
  bool operator==(const TokenReference&) const = default;
};
inline constexpr size_t kMostTokenReferences = 64;
// The bytes that stand for reference `index` in automata and vocabularies; no text has the first of
// them.
inline std::string token_reference_bytes(size_t index) {
  return {'\xFF', static_cast<char>(index)};
}

class Rules {
 public:
  Rules() = default;
  Rules(Rules&&) = default;
  Rules& operator=(Rules&&) = default;

  // Adds a rule without a body; define() sets it. Messages use the name: "rule 'list' (line 3)".
  RuleId add(std::string name);
  void rename(RuleId rule, std::string name);
  void define(RuleId rule, NodeId body);

  NodeId text(std::string_view bytes);
  NodeId one_of(CharClass chars);  // an empty class matches nothing
  NodeId token(TokenReference token);
  NodeId sequence(const std::vector<NodeId>& parts);
  NodeId choice(const std::vector<NodeId>& parts);            // an empty list matches nothing
  NodeId repeat(NodeId part, uint32_t least, uint32_t most);  // most = kUnbounded: no upper limit
  NodeId call(RuleId rule);
  NodeId graph(const std::vector<NodeId>& parts, Graph graph);
  NodeId maybe(NodeId part) { return repeat(part, 0, 1); }
  NodeId empty() { return text(""); }
  // The texts of another grammar, whose rules and nodes are copied. It must name no tokens.
  NodeId include(const Rules& other);

  const Node& node(NodeId id) const { return nodes_[static_cast<size_t>(id)]; }
  const Graph& graph(const Node& node) const { return graphs_[node.least]; }
  size_t size() const { return rules_.size(); }
  size_t nodes() const { return nodes_.size(); }
  const std::string& name(RuleId rule) const { return rules_[static_cast<size_t>(rule)].name; }
  NodeId body(RuleId rule) const;
  bool is_defined(RuleId rule) const { return rules_[static_cast<size_t>(rule)].defined; }

  std::span<const TokenReference> tokens() const { return tokens_; }

  RuleId root = {};
  // Some rules can never end. true: alternatives that need such a rule are dropped. false: such a
  // rule is an Error.
  bool drop_endless = false;

 private:
  struct Rule {
    std::string name;
    bool defined = false;
    NodeId body = {};
  };
  NodeId add_node(Node node);
  template <class T>
  std::span<const T> keep(std::span<const T> list);  // a copy in memory_

  // What nodes refer to. On the heap, so that views stay valid when the Rules are moved.
  std::unique_ptr<std::pmr::monotonic_buffer_resource> memory_ =
      std::make_unique<std::pmr::monotonic_buffer_resource>();
  std::vector<Node> nodes_;
  std::vector<Graph> graphs_;
  size_t links_ = 0;  // of all graphs
  std::vector<Rule> rules_;
  std::vector<TokenReference> tokens_;
};

}  // namespace skald::grammar
