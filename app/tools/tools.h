// The tools that a request offers, in the form of OpenAI's chat completions: `tools`, `tool_choice`
// and `parallel_tool_calls`.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "app/files/json.h"

namespace skald {

struct Tool {
  std::string name;
  Json parameters;  // a JSON schema; null: an object with any members
  bool strict = false;
};

struct Tools {
  enum class Choice { None, Auto, Required };

  std::vector<Tool> all;  // with a named choice: this one alone
  Json given;             // the list as the request has it, for the template
  Choice choice = Choice::Auto;
  bool parallel = true;  // false: one call at most

  bool any() const { return !all.empty() && choice != Choice::None; }
  // The answer has a grammar: a call must come, or some tool is strict.
  bool constrained() const;
  const Tool* find(std::string_view name) const;
};

// `choice` may be nullptr. Throws Error(Exit::Usage) that begins with the field's name.
Tools read_request_tools(const Json& tools, const Json* choice);

// The JSON types ("string", "object", …) that the values of a schema may have. `root` is the schema
// in which references such as "#/$defs/city" are found.
std::vector<std::string> types_of(const Json& schema, const Json& root);

// What a reference such as "#/$defs/city" means in `root`; nullptr: there is no such place.
const Json* schema_at(const std::string& reference, const Json& root);

// The schema of one argument, or nullptr where the parameters do not describe it.
const Json* argument_schema(const Tool& tool, std::string_view name);

}  // namespace skald
