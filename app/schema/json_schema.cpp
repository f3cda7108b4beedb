#include "app/schema/json_schema.h"

#include <algorithm>
#include <cmath>

#include "app/files/json.h"
#include "app/schema/compiler.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "engine/grammar/matcher.h"
#include "tokenizer/text/json_problem.h"

namespace skald {

using grammar::NodeId;

namespace {

constexpr int kMostDepth = 200;                       // nesting of the schema's JSON
constexpr size_t kMostSchemaBytes = size_t{4} << 20;  // a document, or one schema
constexpr size_t kMostTodo = 100'000;
constexpr size_t kMostNotes = 20;
constexpr int kMostLevels = 4;

constexpr std::string_view kTypes[] = {"object",  "array",   "string", "number",
                                       "integer", "boolean", "null"};

bool has_type(const Json& value, std::string_view type) {
  if (type == "integer") {
    return value.is_number_integer() ||
           (value.is_number() && value.get<double>() == std::floor(value.get<double>()));
  }
  return type == (value.is_number() ? "number" : value.type_name());
}

grammar::Rules with_space_before(NodeId (JsonParts::*value)()) {
  grammar::Rules rules;
  JsonParts parts(rules);
  rules.root = rules.add("JSON");
  rules.define(rules.root, rules.sequence({parts.space(), (parts.*value)()}));
  return rules;
}

}  // namespace

grammar::Rules json_rules() { return with_space_before(&JsonParts::any); }
grammar::Rules json_object_rules() { return with_space_before(&JsonParts::any_object); }

Json parse_user_json(std::string_view text, const std::string& source) {
  if (text.size() > kMostSchemaBytes) {
    fail(Exit::Usage, source, ": the JSON has ", text.size(), " bytes; the limit is ",
         kMostSchemaBytes >> 20, " MiB");
  }
  const auto shallow = [&](int depth) {
    if (depth > kMostDepth) {
      fail(Exit::Usage, source, ": the JSON nests more than ", kMostDepth, " levels deep");
    }
  };
  try {
    return parse_json(text, shallow);
  } catch (const Json::exception&) {
    fail(Exit::Usage, source, ": not valid JSON: ", json_problem(text));
  }
}

SchemaRules json_schema_rules(const Json& schema, const std::string& source) {
  const bool wrapped = schema.is_object() && schema.contains("schema") &&
                       schema["schema"].is_object() && !schema.contains("type") &&
                       !schema.contains("properties");
  const Json& root = wrapped ? schema["schema"] : schema;
  return SchemaCompiler(root, source).compile(root);
}

std::optional<SchemaRules> response_format_rules(const Json& format, const std::string& source) {
  constexpr std::string_view kExpected =
      "expected an object with a type: text, json_object or json_schema";
  if (!format.is_object() || !format.contains("type") || !format["type"].is_string()) {
    fail(Exit::Usage, source, ": ", kExpected);
  }
  const std::string type = format["type"].get<std::string>();
  if (type == "text") return std::nullopt;
  if (type == "json_object") return SchemaRules{json_object_rules(), {}};
  if (type != "json_schema") {
    fail(Exit::Usage, source, ": unknown type '", printable(type, 60), "'; ", kExpected);
  }
  const bool has_schema = format.contains("json_schema") && format["json_schema"].is_object() &&
                          format["json_schema"].contains("schema");
  if (!has_schema) {
    fail(Exit::Usage, source, R"(: expected "json_schema": {"schema": {...}} beside the type)");
  }
  return json_schema_rules(format["json_schema"]["schema"], source);
}

SchemaRules SchemaCompiler::compile(const Json& root) {
  const NodeId whole = rules_.sequence({parts_.space(), value(root, "#")});
  while (!todo_.empty()) {
    const Todo next = std::move(todo_.front());
    todo_.pop_front();
    rules_.define(next.rule, build(next.schema, next.path));
  }
  rules_.root = rules_.add(source_ + ": #");
  rules_.define(rules_.root, whole);
  rules_.drop_endless = true;
  if (notes_.size() > kMostNotes) {
    const size_t more = notes_.size() - kMostNotes;
    notes_.resize(kMostNotes);
    notes_.push_back(concat(source_, ": ", more, " more notes like these"));
  }
  return {std::move(rules_), std::move(notes_)};
}

NodeId SchemaCompiler::value(const Json& schema, const std::string& path) {
  if (schema.is_boolean()) return schema.get<bool>() ? parts_.any() : nothing();
  if (!schema.is_object()) refuse(path, "expected a schema: an object, true or false");
  const auto [known, is_new] = known_.try_emplace(dump(schema));
  if (is_new) {
    if (known_.size() > kMostTodo || known->first.size() > kMostSchemaBytes) {
      refuse(path, concat("the schema is too large: more than ", kMostTodo,
                          " parts, or a part of more than ", kMostSchemaBytes >> 20, " MiB"));
    }
    known->second = rules_.add(concat(source_, ": ", printable(path)));
    todo_.push_back({known->second, schema, path});
  }
  return rules_.call(known->second);
}

NodeId SchemaCompiler::build(const Json& schema, const std::string& path) {
  document_.check_keywords(schema, path);
  if (schema.contains("$ref")) {
    const Json to = document_.resolved(schema, path);
    const bool plain = schema["$ref"].is_string() && to == document_.target(schema["$ref"], path);
    return value(to, plain ? schema["$ref"].get<std::string>() : path);
  }
  if (const Json* all = find(schema, "allOf")) {
    if (!all->is_array()) refuse(path + "/allOf", "expected an array of schemas");
    Json merged = schema;
    merged.erase("allOf");
    for (const Json& part : *all) merged = document_.merged(merged, part, path);
    return value(merged, path);
  }
  for (const char* keyword : {"anyOf", "oneOf"}) {
    if (schema.contains(keyword)) return build_choices(schema, keyword, path);
  }
  if (schema.contains("enum") || schema.contains("const")) return build_values(schema, path);
  if (const Json* type = find(schema, "type")) {
    const bool list =
        type->is_array() && !type->empty() &&
        std::all_of(type->begin(), type->end(), [](const Json& one) { return one.is_string(); });
    if (!type->is_string() && !list) refuse(path + "/type", "expected a type or a list of types");
  }
  std::vector<NodeId> choices;
  std::vector<std::string> types = types_of(schema);
  if (schema.value("nullable", false)) types.push_back("null");
  for (const std::string& type : types) {
    if (std::find(std::begin(kTypes), std::end(kTypes), type) == std::end(kTypes)) {
      const std::string_view meant = nearest(type, kTypes);
      refuse(path + "/type", concat("unknown type '", printable(type, 60), "'",
                                    meant.empty() ? "" : concat(", did you mean '", meant, "'?")));
    }
    choices.push_back(build_type(type, schema, path));
  }
  return rules_.choice(std::move(choices));
}

NodeId SchemaCompiler::build_type(const std::string& type, const Json& schema,
                                  const std::string& path) {
  if (type == "object") return build_object(schema, path);
  if (type == "array") return build_array(schema, path);
  if (type == "string") return build_string(schema, path);
  if (type == "boolean") return parts_.boolean();
  if (type == "null") return rules_.text("null");
  return build_number(schema, type == "integer", path);
}

NodeId SchemaCompiler::build_choices(const Json& schema, const std::string& keyword,
                                     const std::string& path) {
  const Json& choices = schema[keyword];
  const std::string here = path + "/" + keyword;
  if (!choices.is_array() || choices.empty()) refuse(here, "expected an array of schemas");
  if (keyword == "oneOf") note_overlaps(choices, here);
  Json rest = schema;
  rest.erase(keyword);
  const bool alone = !has_constraints(rest);
  std::vector<NodeId> nodes;
  for (size_t i = 0; i < choices.size(); ++i) {
    const std::string place = concat(here, "/", i);
    nodes.push_back(value(alone ? choices[i] : document_.merged(choices[i], rest, place), place));
  }
  return rules_.choice(std::move(nodes));
}

// oneOf allows a value only if exactly one choice does. Notes the first two choices that may both
// allow a value.
void SchemaCompiler::note_overlaps(const Json& choices, const std::string& path) {
  for (size_t i = 0; i < choices.size(); ++i) {
    for (size_t j = i + 1; j < choices.size(); ++j) {
      if (document_.disjoint(choices[i], choices[j], path)) continue;
      notes_.push_back(concat(source_, ": ", printable(path), ": choices ", i, " and ", j,
                              " may both be valid, which oneOf forbids; reading it as anyOf"));
      return;
    }
  }
}

// The values of enum or const that the schema's other keywords also allow.
NodeId SchemaCompiler::build_values(const Json& schema, const std::string& path) {
  Json rest = schema;
  Json values = Json::array();
  if (const Json* list = find(schema, "enum")) {
    if (!list->is_array()) refuse(path + "/enum", "expected an array of values");
    values = *list;
  } else {
    values.push_back(schema["const"]);
  }
  if (schema.contains("enum") && schema.contains("const")) {
    const bool both = std::find(values.begin(), values.end(), schema["const"]) != values.end();
    values = both ? Json::array({schema["const"]}) : Json::array();
  }
  rest.erase("enum");
  rest.erase("const");
  std::vector<NodeId> nodes;
  const auto valid = value_check(rest, path);
  for (const Json& one : values) {
    if (valid(one)) nodes.push_back(parts_.literal(one));
  }
  return rules_.choice(std::move(nodes));
}

std::function<bool(const Json&)> SchemaCompiler::value_check(Json schema, const std::string& path) {
  if (!has_constraints(schema)) return [](const Json&) { return true; };
  Json rest = schema;
  rest.erase("type");
  rest.erase("nullable");
  if (!has_constraints(rest)) {
    std::vector<std::string> types = types_of(schema);
    if (schema.value("nullable", false)) types.push_back("null");
    return [types](const Json& value) {
      return std::any_of(types.begin(), types.end(),
                         [&](const std::string& type) { return has_type(value, type); });
    };
  }
  if (level_ >= kMostLevels) {
    refuse(path, concat("enum or const with other keywords beside it nests more than ", kMostLevels,
                        " levels deep"));
  }
  SchemaCompiler compiler(document_.root(), source_);
  compiler.level_ = level_ + 1;
  auto automaton = std::make_shared<grammar::Automaton>(compiler.compile(schema).rules);
  auto no_tokens = std::make_shared<grammar::Vocabulary>(std::span<const std::string_view>{},
                                                         std::span<const int32_t>{});
  const auto masks = std::make_shared<grammar::Masks>(std::move(automaton), std::move(no_tokens));
  return [masks](const Json& value) {
    grammar::Matcher matcher(masks);
    return matcher.accept(dump(value)) && matcher.may_end();
  };
}

uint32_t SchemaCompiler::count(const Json& schema, const char* keyword, uint32_t missing,
                               const std::string& path) const {
  const Json* number = find(schema, keyword);
  if (!number) return missing;
  const std::string here = concat(path, "/", keyword);
  const double value = number->is_number() ? number->get<double>() : -1;
  if (!(value >= 0) || value != static_cast<double>(static_cast<uint64_t>(std::min(value, 1e18)))) {
    refuse(here, "expected a whole number, 0 or more");
  }
  if (value > grammar::kMostRepeats) {
    if (std::string_view(keyword).starts_with("max")) return grammar::kUnbounded;
    refuse(here, concat("the number is too large; at most ", grammar::kMostRepeats));
  }
  return static_cast<uint32_t>(value);
}

}  // namespace skald
