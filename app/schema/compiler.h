// Compiles a JSON schema document into grammar rules. Each schema that the root reaches becomes one
// rule; equal schemas share a rule.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "app/schema/json_schema.h"
#include "app/schema/merge.h"
#include "app/schema/parts.h"

namespace skald {

class SchemaCompiler {
 public:
  SchemaCompiler(const Json& root, const std::string& source)
      : source_(source), document_(root, source), parts_(rules_) {}

  SchemaRules compile(const Json& root);

 private:
  using NodeId = grammar::NodeId;
  struct Todo {
    grammar::RuleId rule;
    Json schema;
    std::string path;
  };
  struct Member {
    NodeId node;
    bool required;
  };

  NodeId value(const Json& schema, const std::string& path);
  NodeId build(const Json& schema, const std::string& path);
  NodeId build_choices(const Json& schema, const std::string& keyword, const std::string& path);
  NodeId build_values(const Json& schema, const std::string& path);
  // Returns a function that checks whether a value is valid by `schema`.
  std::function<bool(const Json&)> value_check(Json schema, const std::string& path);
  NodeId build_type(const std::string& type, const Json& schema, const std::string& path);
  NodeId nothing() { return rules_.choice({}); }
  void note_overlaps(const Json& choices, const std::string& path);

  // objects.cpp
  NodeId build_object(const Json& schema, const std::string& path);
  NodeId build_array(const Json& schema, const std::string& path);
  NodeId join_members(std::vector<Member> members, NodeId more, uint32_t most_more);
  std::vector<Member> named_members(const Json& schema, const std::string& path,
                                    std::vector<std::string>& names);
  Json rule_for_member(const Json& schema, const std::string& name, const std::string& path);
  NodeId other_member(const Json& schema, std::vector<std::string> names, const std::string& path);
  void check_member_count(const Json& schema, const std::vector<Member>& members, bool open,
                          uint32_t& most_more, const std::string& path);

  // scalars.cpp
  NodeId build_string(const Json& schema, const std::string& path);
  NodeId build_number(const Json& schema, bool integer, const std::string& path);

  // The value of a keyword, which must be a whole number; `missing` if the schema lacks the
  // keyword.
  uint32_t count(const Json& schema, const char* keyword, uint32_t missing,
                 const std::string& path) const;
  const Json* find(const Json& schema, const char* keyword) const {
    return schema.contains(keyword) ? &schema[keyword] : nullptr;
  }
  [[noreturn]] void refuse(const std::string& path, const std::string& what) const {
    document_.refuse(path, what);
  }

  std::string source_;
  SchemaDocument document_;
  grammar::Rules rules_;
  JsonParts parts_;
  std::map<std::string, grammar::RuleId> known_;  // schema as text → its rule
  std::deque<Todo> todo_;
  std::vector<std::string> notes_;
  int level_ = 0;  // depth of compilers that value_check() starts within compilers
};

}  // namespace skald
