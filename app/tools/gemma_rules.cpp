// Arguments as Gemma 4 writes them (gemma_arguments.h), by their schema: types, enum, const,
// properties, required, items and references. Other keywords have a note.
#include <algorithm>

#include "app/tools/argument_rules.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"

namespace skald {

using grammar::kUnbounded;
using grammar::NodeId;

namespace {

constexpr int kMostGemmaDepth = 16;

// What json_schema_rules() makes of numbers is that of all formats.
NodeId gemma_number(grammar::Rules& rules, bool whole) {
  const NodeId digit = rules.one_of({{'0', '9'}});
  const NodeId integer = rules.sequence(
      {rules.maybe(rules.text("-")),
       rules.choice({rules.text("0"),
                     rules.sequence({rules.one_of({{'1', '9'}}), rules.repeat(digit, 0, 18)})})});
  if (whole) return integer;
  return rules.sequence(
      {integer, rules.maybe(rules.sequence({rules.text("."), rules.repeat(digit, 1, 18)}))});
}

NodeId gemma_list(grammar::Rules& rules, NodeId item) {
  const NodeId more = rules.repeat(rules.sequence({rules.text(","), item}), 0, kUnbounded);
  return rules.sequence(
      {rules.text("["), rules.maybe(rules.sequence({item, more})), rules.text("]")});
}

bool has_keyword(const Json& schema, const char* name) {
  return schema.is_object() && schema.contains(name) && !schema[name].is_null();
}

}  // namespace

NodeId ArgumentRules::gemma_text() {
  const bool token = syntax_.is_control(kGemmaQuote);
  const NodeId quote = syntax_.literal(rules_, kGemmaQuote);
  const NodeId text = token ? rules_.repeat(rules_.one_of(grammar::any_char()), 0, kUnbounded)
                            : text_without(rules_, std::string(kGemmaQuote));
  return rules_.sequence({quote, text, quote});
}

NodeId ArgumentRules::gemma_any() {
  if (gemma_any_) return rules_.call(*gemma_any_);
  gemma_any_ = rules_.add("any value");
  const NodeId value = rules_.call(*gemma_any_);
  const NodeId name = rules_.repeat(
      rules_.one_of({{'0', '9'}, {'A', 'Z'}, {'a', 'z'}, {'_', '_'}, {'-', '.'}}), 1, 64);
  const NodeId member = rules_.sequence({name, rules_.text(":"), value});
  const NodeId more = rules_.repeat(rules_.sequence({rules_.text(","), member}), 0, kUnbounded);
  const NodeId object = rules_.sequence(
      {rules_.text("{"), rules_.maybe(rules_.sequence({member, more})), rules_.text("}")});
  rules_.define(*gemma_any_,
                rules_.choice({gemma_text(), gemma_number(rules_, false), rules_.text("true"),
                               rules_.text("false"), rules_.text("null"), gemma_list(rules_, value),
                               object}));
  return value;
}

// NAME:VALUE,… in the order of the properties.
NodeId ArgumentRules::gemma_members(const Value& value, int depth) {
  if (!has_keyword(value.schema, "properties") || !value.schema["properties"].is_object()) {
    if (has_keyword(value.schema, "type")) return rules_.empty();
    const NodeId name = rules_.repeat(
        rules_.one_of({{'0', '9'}, {'A', 'Z'}, {'a', 'z'}, {'_', '_'}, {'-', '.'}}), 1, 64);
    const NodeId member = rules_.sequence({name, rules_.text(":"), gemma_any()});
    const NodeId more = rules_.repeat(rules_.sequence({rules_.text(","), member}), 0, kUnbounded);
    return rules_.maybe(rules_.sequence({member, more}));
  }
  const Json& properties = value.schema["properties"];
  const Json required = value.schema.value("required", Json::array());
  // `first`: what may follow if no member is written yet; `later`: what may follow a member. Both
  // are built from the last property on.
  NodeId first = rules_.empty(), later = rules_.empty();
  const NodeId comma = rules_.text(",");
  std::vector<std::string> names;
  for (const auto& [name, schema] : properties.items()) names.push_back(name);
  for (size_t i = names.size(); i-- > 0;) {
    const std::string& name = names[i];
    const NodeId member = rules_.sequence(
        {rules_.text(name + ":"),
         gemma_value({properties[name], value.root, concat(value.place, "/properties/", name)},
                     depth + 1)});
    const bool must = std::find(required.begin(), required.end(), name) != required.end();
    const NodeId as_first = rules_.sequence({member, later});
    const NodeId as_later = rules_.sequence({comma, member, later});
    first = must ? as_first : rules_.choice({as_first, first});
    later = must ? as_later : rules_.choice({as_later, later});
  }
  return first;
}

NodeId ArgumentRules::gemma_value(const Value& value, int depth) {
  if (depth > kMostGemmaDepth) {
    fail(Exit::Usage, value.place, ": the schema nests deeper than ", kMostGemmaDepth,
         " levels, or without an end, which this model's format does not allow");
  }
  const Json* schema = &value.schema;
  if (has_keyword(*schema, "$ref") && (*schema)["$ref"].is_string()) {
    const std::string text = (*schema)["$ref"].get<std::string>();
    schema = schema_at(text, value.root);
    if (!schema) {
      fail(Exit::Usage, value.place, ": there is no ", printable(text, 60), " in the parameters");
    }
  }
  Json values = Json::array();
  if (has_keyword(*schema, "enum") && (*schema)["enum"].is_array()) values = (*schema)["enum"];
  if (schema->is_object() && schema->contains("const")) values = Json::array({(*schema)["const"]});
  std::vector<NodeId> nodes;
  for (const Json& one : values) {
    const NodeId quote = syntax_.literal(rules_, kGemmaQuote);
    nodes.push_back(one.is_string()
                        ? rules_.sequence({quote, rules_.text(one.get<std::string>()), quote})
                        : rules_.text(dump(one)));
  }
  if (!nodes.empty()) return rules_.choice(nodes);
  for (const char* keyword : {"pattern", "format", "minLength", "maxLength", "minimum", "maximum",
                              "minItems", "maxItems"}) {
    if (!has_keyword(*schema, keyword)) continue;
    notes_.push_back(concat(value.place, ": '", keyword, "' is not kept in this model's format"));
  }
  const std::vector<std::string> types = types_of(*schema, value.root);
  const bool any = types.size() > 6;
  if (any) return gemma_any();
  for (const std::string& type : types) {
    if (type == "string") nodes.push_back(gemma_text());
    if (type == "integer") nodes.push_back(gemma_number(rules_, true));
    if (type == "number") nodes.push_back(gemma_number(rules_, false));
    if (type == "null") nodes.push_back(rules_.text("null"));
    if (type == "boolean") {
      nodes.push_back(rules_.choice({rules_.text("true"), rules_.text("false")}));
    }
    if (type == "array") {
      const bool known = has_keyword(*schema, "items");
      nodes.push_back(gemma_list(
          rules_,
          known ? gemma_value({(*schema)["items"], value.root, value.place + "/items"}, depth + 1)
                : gemma_any()));
    }
    if (type == "object") {
      nodes.push_back(rules_.sequence({rules_.text("{"),
                                       gemma_members({*schema, value.root, value.place}, depth),
                                       rules_.text("}")}));
    }
  }
  return rules_.choice(nodes);
}

}  // namespace skald
