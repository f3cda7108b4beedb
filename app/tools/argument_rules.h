// The arguments of one function as a grammar, as a format writes them.
#pragma once

#include <string>
#include <vector>

#include "app/tools/syntax.h"
#include "app/tools/tools.h"

namespace skald {

// Any text that does not contain `mark`.
grammar::NodeId text_without(grammar::Rules& rules, const std::string& mark);

class ArgumentRules {
 public:
  ArgumentRules(grammar::Rules& rules, const ToolSyntax& syntax, std::vector<std::string>& notes)
      : rules_(rules), syntax_(syntax), notes_(notes) {}

  // `by_schema` false: any arguments.
  grammar::NodeId of(const Tool& tool, bool by_schema);

 private:
  using NodeId = grammar::NodeId;
  struct Value {
    const Json& schema;
    const Json& root;  // in which references are found
    std::string place;
  };

  NodeId json(const Json& schema, const std::string& place);
  NodeId tags(const Tool& tool, bool by_schema);
  NodeId tag(const std::string& name, NodeId value);
  NodeId tag_value(const Value& value);
  NodeId gemma_members(const Value& value, int depth);
  NodeId gemma_value(const Value& value, int depth);
  NodeId gemma_text();
  NodeId gemma_any();

  grammar::Rules& rules_;
  const ToolSyntax& syntax_;
  std::vector<std::string>& notes_;
  std::optional<grammar::RuleId> gemma_any_;
};

}  // namespace skald
