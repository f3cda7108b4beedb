#include "app/schema/json_schema.h"

#include <algorithm>

#include "app/files/json.h"
#include "app/schema/compiler.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "tokenizer/text/json_problem.h"

namespace skald {

using grammar::NodeId;

namespace {

constexpr int kMostDepth = 200;                       // nesting of the schema's JSON
constexpr size_t kMostSchemaBytes = size_t{4} << 20;  // a document, or one schema

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

SchemaRules json_schema_rules(const Json& schema, const std::string& source,
                              SchemaOptions options) {
  const bool wrapped = schema.is_object() && schema.contains("schema") &&
                       schema["schema"].is_object() && !schema.contains("type") &&
                       !schema.contains("properties");
  const Json& root = wrapped ? schema["schema"] : schema;
  return SchemaCompiler(root, source, options).compile();
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

SchemaRules SchemaCompiler::compile() {
  try {
    const NodeId whole = rules_.sequence({parts_.space(), value(expander_.root())});
    while (!todo_.empty()) {
      const CondId next = todo_.front();
      todo_.pop_front();
      rules_.define(cond_rules_.at(next), build(next));
    }
    rules_.root = rules_.add(source_ + ": #");
    rules_.define(rules_.root, whole);
  } catch (const TooComplex&) {
    fail(Exit::Usage, source_, ": the schema combines too many alternatives; write fewer choices");
  }
  rules_.drop_endless = true;
  std::vector<std::string> notes = expander_.notes();
  if (const auto& unknown = expander_.unknown(); !unknown.empty()) {
    std::string list;
    for (const std::string& keyword : unknown) {
      list += concat(list.empty() ? "" : ", ", "'", printable(keyword, 60), "'");
    }
    notes.push_back(concat(source_, ": keywords without a meaning are ignored: ", list));
  }
  if (options_.strict && !notes.empty()) {
    fail(Exit::Usage, notes.front(), "; refused because of --strict-schema");
  }
  return {std::move(rules_), std::move(notes)};
}

NodeId SchemaCompiler::value(CondId cond) {
  if (cond == kAnything) return parts_.any();
  if (cond == kNothing) return nothing();
  const auto [known, is_new] = cond_rules_.try_emplace(cond);
  if (is_new) {
    known->second = rules_.add(concat(source_, ": ", printable(expander_.path(cond))));
    todo_.push_back(cond);
  }
  return rules_.call(known->second);
}

NodeId SchemaCompiler::build(CondId cond) {
  if (const auto choices = expander_.choices(cond)) {
    std::vector<NodeId> nodes;
    for (CondId choice : *choices) nodes.push_back(value(choice));
    return rules_.choice(nodes);
  }
  return build(expander_.expand(cond), expander_.path(cond));
}

NodeId SchemaCompiler::build(const Union& values, const std::string& path) {
  const auto all = [](const auto& forms, const auto& any) {
    return std::find(forms.begin(), forms.end(), any) != forms.end();
  };
  const bool objects = all(values.objects, ObjectForm()), arrays = all(values.arrays, ArrayForm()),
             strings = all(values.strings, StringForm()),
             numbers = all(values.numbers, NumberForm());
  if (objects && arrays && strings && numbers && values.null && values.yes && values.no) {
    return parts_.any();
  }
  std::vector<NodeId> nodes;
  const auto build_all = [&](bool any, NodeId whole, const auto& forms, const auto& make) {
    if (any) {
      nodes.push_back(whole);
      return;
    }
    for (const auto& form : forms) nodes.push_back(make(form));
  };
  build_all(objects, parts_.any_object(), values.objects,
            [&](const ObjectForm& form) { return build_object(form, path); });
  build_all(arrays, parts_.any_array(), values.arrays,
            [&](const ArrayForm& form) { return build_array(form, path); });
  build_all(strings, parts_.string(), values.strings,
            [&](const StringForm& form) { return build_string(form, path); });
  build_all(numbers, parts_.number(), values.numbers,
            [&](const NumberForm& form) { return build_number(form, path); });
  if (values.yes) nodes.push_back(rules_.text("true"));
  if (values.no) nodes.push_back(rules_.text("false"));
  if (values.null) nodes.push_back(rules_.text("null"));
  return rules_.choice(nodes);
}

}  // namespace skald
