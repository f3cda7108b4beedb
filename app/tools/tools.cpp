#include "app/tools/tools.h"

#include <algorithm>
#include <set>

#include "engine/base/error.h"
#include "engine/base/printable.h"

namespace skald {
namespace {

constexpr size_t kMostTools = 1024;
constexpr std::string_view kTypes[] = {"array",  "boolean", "integer", "null",
                                       "number", "object",  "string"};

const Json* member(const Json& object, std::string_view name) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(name);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

bool good_name(const std::string& name) {
  constexpr size_t kMostLetters = 256;
  // A name with one of these could not be read back from an answer.
  return !name.empty() && name.size() <= kMostLetters &&
         name.find_first_of(" \t\r\n<>\"'[](){}|\\:,=`") == std::string::npos;
}

Tool read_tool(const Json& given, size_t number) {
  const auto refuse = [&](std::string_view what) {
    fail(Exit::Usage, "field 'tools': tool ", number, ": ", what);
  };
  const Json* function = member(given, "function");
  const Json* type = member(given, "type");
  if (!function || !function->is_object() || (type && *type != "function")) {
    refuse("expected {\"type\": \"function\", \"function\": {\"name\": …, \"parameters\": {…}}}");
  }
  const Json* name = member(*function, "name");
  if (!name || !name->is_string()) refuse("the function has no \"name\"");
  Tool tool;
  tool.name = name->get<std::string>();
  if (!good_name(tool.name)) {
    refuse(concat("'", printable(tool.name, 60),
                  "' is no name of a function; use letters, digits, _ and -"));
  }
  if (const Json* parameters = member(*function, "parameters")) {
    if (!parameters->is_object()) refuse("\"parameters\" is not a JSON schema, an object");
    tool.parameters = *parameters;
  }
  if (const Json* strict = member(*function, "strict")) {
    if (!strict->is_boolean()) refuse("\"strict\" is neither true nor false");
    tool.strict = strict->get<bool>();
  }
  return tool;
}

void read_choice(const Json& given, Tools& tools) {
  constexpr std::string_view kExpected =
      "field 'tool_choice': expected \"none\", \"auto\", \"required\" or {\"type\": \"function\", "
      "\"function\": {\"name\": …}}";
  if (given == "none") {
    tools.choice = Tools::Choice::None;
  } else if (given == "required") {
    tools.choice = Tools::Choice::Required;
  } else if (given != "auto") {
    const Json* function = member(given, "function");
    const Json* type = member(given, "type");
    const Json* name = function ? member(*function, "name") : nullptr;
    if (!name || !name->is_string() || (type && *type != "function")) fail(Exit::Usage, kExpected);
    const std::string wanted = name->get<std::string>();
    const Tool* tool = tools.find(wanted);
    if (!tool) {
      fail(Exit::Usage, "field 'tool_choice': 'tools' has no function '", printable(wanted, 60),
           "'");
    }
    tools.all = std::vector<Tool>{*tool};
    tools.choice = Tools::Choice::Required;
  }
  if (tools.choice == Tools::Choice::Required && tools.all.empty()) {
    fail(Exit::Usage, "field 'tool_choice': asks for a call, but 'tools' has no function");
  }
}

std::string type_of(const Json& value) {
  if (value.is_string()) return "string";
  if (value.is_boolean()) return "boolean";
  if (value.is_null()) return "null";
  if (value.is_number_integer()) return "integer";
  if (value.is_number()) return "number";
  return value.is_array() ? "array" : "object";
}

using Types = std::set<std::string>;

// Schemas may refer to each other, and to themselves.
constexpr int kMostSchemas = 1000;

// `schemas`: how many more are read.
Types collect(const Json& schema, const Json& root, int& schemas) {
  const Types all(std::begin(kTypes), std::end(kTypes));
  if (--schemas < 0 || !schema.is_object()) return all;
  if (const Json* reference = member(schema, "$ref"); reference && reference->is_string()) {
    const Json* found = schema_at(reference->get<std::string>(), root);
    return found ? collect(*found, root, schemas) : all;
  }
  if (schema.contains("const")) return {type_of(schema["const"])};
  Types types;
  if (const Json* values = member(schema, "enum"); values && values->is_array()) {
    for (const Json& value : *values) types.insert(type_of(value));
    return types;
  }
  if (const Json* type = member(schema, "type")) {
    if (type->is_string()) return {type->get<std::string>()};
    for (const Json& one : *type) {
      if (one.is_string()) types.insert(one.get<std::string>());
    }
    return types;
  }
  for (const char* name : {"anyOf", "oneOf"}) {
    const Json* choices = member(schema, name);
    if (!choices || !choices->is_array()) continue;
    for (const Json& choice : *choices) types.merge(collect(choice, root, schemas));
    return types;
  }
  return all;
}

}  // namespace

bool Tools::constrained() const {
  if (!any()) return false;
  return choice == Choice::Required ||
         std::any_of(all.begin(), all.end(), [](const Tool& tool) { return tool.strict; });
}

const Tool* Tools::find(std::string_view name) const {
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Tool& tool) { return tool.name == name; });
  return found == all.end() ? nullptr : &*found;
}

Tools read_request_tools(const Json& tools, const Json* choice) {
  Tools read;
  if (!tools.is_array()) fail(Exit::Usage, "field 'tools': expected a list of functions");
  if (tools.size() > kMostTools) {
    fail(Exit::Usage, "field 'tools': has ", tools.size(), " tools; the limit is ", kMostTools);
  }
  for (const Json& one : tools) {
    read.all.push_back(read_tool(one, read.all.size() + 1));
    const std::string& name = read.all.back().name;
    if (read.find(name) != &read.all.back()) {
      fail(Exit::Usage, "field 'tools': two functions have the name '", printable(name, 60), "'");
    }
  }
  read.given = tools;
  if (choice) read_choice(*choice, read);
  return read;
}

std::vector<std::string> types_of(const Json& schema, const Json& root) {
  int schemas = kMostSchemas;
  const Types types = collect(schema, root, schemas);
  return {types.begin(), types.end()};
}

const Json* schema_at(const std::string& reference, const Json& root) {
  if (!reference.starts_with("#")) return nullptr;
  try {
    const Json::json_pointer place(reference.substr(1));
    return root.contains(place) ? &root.at(place) : nullptr;
  } catch (const Json::exception&) {
    return nullptr;
  }
}

const Json* argument_schema(const Tool& tool, std::string_view name) {
  const Json* properties = member(tool.parameters, "properties");
  return properties ? member(*properties, name) : nullptr;
}

}  // namespace skald
