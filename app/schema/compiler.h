// Compiles a JSON schema document into grammar rules. Each condition (forms.h) that the root
// reaches becomes one rule.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "app/schema/expander.h"
#include "app/schema/json_schema.h"
#include "app/schema/parts.h"

namespace skald {

// A number of characters or items, in rules.
inline uint32_t to_count(uint64_t n) {
  if (n == kNoLimit) return grammar::kUnbounded;
  return static_cast<uint32_t>(std::min<uint64_t>(n, grammar::kMostRepeats));
}

class SchemaCompiler {
 public:
  SchemaCompiler(const Json& root, const std::string& source, SchemaOptions options)
      : source_(source), options_(options), expander_(root, source), parts_(rules_) {}

  SchemaRules compile();

 private:
  using NodeId = grammar::NodeId;

  NodeId value(CondId cond);
  NodeId build(CondId cond);
  NodeId build(const Union& values, const std::string& path);
  NodeId nothing() { return rules_.choice({}); }

  // scalars.cpp
  NodeId build_string(const StringForm& form, const std::string& path);
  NodeId build_texts(const std::vector<std::string>& texts);
  NodeId build_number(const NumberForm& form, const std::string& path);
  NodeId make_number(const NumberForm& form, const std::string& path);
  // The strings of a form; nullopt if they are too many states.
  std::optional<grammar::CharDfa> string_dfa(const StringForm& form);

  // arrays.cpp
  NodeId build_array(const ArrayForm& form, const std::string& path);
  // An array whose items are only restricted by their place and number.
  NodeId build_list(const ArrayForm& form);
  // The values of a condition by their text, if they are few and no arrays or objects.
  std::optional<std::map<std::string, Union>> few_values(CondId cond);
  friend class ArrayGraph;

  // objects.cpp
  struct Others;
  NodeId build_object(const ObjectForm& form, const std::string& path);
  std::vector<Others> other_members(const ObjectForm& form, const std::string& path);
  std::optional<grammar::CharDfa> names_dfa(const Names& names);
  std::optional<grammar::CharDfa> name_dfa(CondId cond);
  friend class ObjectGraph;

  std::string source_;
  SchemaOptions options_;
  Expander expander_;
  grammar::Rules rules_;
  JsonParts parts_;
  std::map<CondId, grammar::RuleId> cond_rules_;  // the rule of each condition
  // Strings of one pattern by its language and length; nothing if they are too large.
  std::map<std::tuple<uint32_t, uint64_t, uint64_t>, std::optional<NodeId>> strings_;
  std::vector<std::pair<NumberForm, NodeId>> numbers_;  // those that took some work
  std::optional<grammar::CharDfa> fractional_;          // numbers that are no integers
  std::deque<CondId> todo_;
};

}  // namespace skald
