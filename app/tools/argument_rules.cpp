#include "app/tools/argument_rules.h"

#include <algorithm>

#include "app/schema/json_schema.h"
#include "engine/base/error.h"
#include "engine/grammar/char_dfa.h"
#include "engine/grammar/utf8_ranges.h"

namespace skald {

using grammar::NodeId;
using grammar::Rules;

namespace {

NodeId plain_chars(Rules& rules, const grammar::CharClass& chars) { return rules.one_of(chars); }

bool only(const std::vector<std::string>& types, std::string_view type) {
  return types.size() == 1 && types.front() == type;
}

bool has(const std::vector<std::string>& types, std::string_view type) {
  return std::find(types.begin(), types.end(), type) != types.end();
}

// The texts of an enum or a const; empty: there are none.
std::vector<std::string> texts_of(const Json& schema) {
  std::vector<std::string> texts;
  if (!schema.is_object()) return texts;
  const Json values = schema.contains("const") ? Json::array({schema["const"]})
                                               : schema.value("enum", Json::array());
  for (const Json& value : values) {
    if (value.is_string()) texts.push_back(value.get<std::string>());
  }
  return texts;
}

bool is_required(const Json& schema, const std::string& name) {
  const auto list = schema.find("required");
  return list != schema.end() && list->is_array() &&
         std::find(list->begin(), list->end(), name) != list->end();
}

Json properties_of(const Json& schema) {
  const auto found = schema.find("properties");
  return found != schema.end() && found->is_object() ? *found : Json::object();
}

const Json& resolved(const Json& schema, const Json& root) {
  const auto reference = schema.find("$ref");
  if (reference == schema.end() || !reference->is_string()) return schema;
  const Json* found = schema_at(reference->get<std::string>(), root);
  return found ? *found : schema;
}

}  // namespace

NodeId text_without(Rules& rules, const std::string& mark) {
  namespace make = grammar::make;
  std::vector<grammar::Regex> parts{
      make::repeat(make::one_of(grammar::any_char()), 0, grammar::kUnbounded)};
  for (size_t at = 0; at < mark.size();) {
    char32_t c = 0;
    check(grammar::decode_utf8(mark, at, c), "marks are UTF-8");
    parts.push_back(make::one_of({{c, c}}));
  }
  parts.push_back(parts.front());
  const auto all = grammar::CharDfa::of(make::sequence(std::move(parts)));
  check(all.has_value(), "a short text");
  const auto others = all->without();
  check(others.has_value(), "a short text");
  return others->add_to(rules, plain_chars);
}

NodeId ArgumentRules::of(const Tool& tool, bool by_schema) {
  const std::string place = concat("tool ", tool.name, ": parameters");
  const Json none = Json::object();
  const Json& schema = by_schema && !tool.parameters.is_null() ? tool.parameters : none;
  switch (syntax_.format()->arguments) {
    case ToolFormat::Arguments::Tags:
      return tags(tool, by_schema);
    case ToolFormat::Arguments::Gemma:
      return gemma_members({schema, schema, place}, 0);
    case ToolFormat::Arguments::Json:
    case ToolFormat::Arguments::Channels:
      break;
  }
  if (schema.empty()) return rules_.include(json_object_rules());
  return json(schema, place);
}

NodeId ArgumentRules::json(const Json& schema, const std::string& place) {
  SchemaRules made = json_schema_rules(schema, place);
  notes_.insert(notes_.end(), made.notes.begin(), made.notes.end());
  return rules_.include(made.rules);
}

NodeId ArgumentRules::tags(const Tool& tool, bool by_schema) {
  const Json properties =
      properties_of(tool.parameters.is_null() ? Json::object() : tool.parameters);
  if (!by_schema || properties.empty()) {
    const bool closed = by_schema && !tool.parameters.is_null();
    if (closed) return rules_.empty();
    const NodeId name = rules_.repeat(
        rules_.one_of({{'0', '9'}, {'A', 'Z'}, {'a', 'z'}, {'_', '_'}, {'-', '.'}}), 1, 64);
    const ToolFormat& format = *syntax_.format();
    const std::string end(format.value_end.substr(format.value_end.find('<')));
    return rules_.repeat(rules_.sequence({syntax_.literal(rules_, format.key_begin), name,
                                          syntax_.literal(rules_, format.key_end),
                                          text_without(rules_, end.substr(0, end.find('>') + 1)),
                                          syntax_.literal(rules_, format.value_end)}),
                         0, grammar::kUnbounded);
  }
  std::vector<NodeId> parts;
  for (const auto& [name, schema] : properties.items()) {
    const Value value{schema, tool.parameters,
                      concat("tool ", tool.name, ": parameters: #/properties/", name)};
    const NodeId one = tag(name, tag_value(value));
    parts.push_back(is_required(tool.parameters, name) ? one : rules_.maybe(one));
  }
  return rules_.sequence(parts);
}

NodeId ArgumentRules::tag(const std::string& name, NodeId value) {
  const ToolFormat& format = *syntax_.format();
  return rules_.sequence({syntax_.literal(rules_, format.key_begin), rules_.text(name),
                          syntax_.literal(rules_, format.key_end), value,
                          syntax_.literal(rules_, format.value_end)});
}

// A text stands between the tags as it is; everything else as JSON.
NodeId ArgumentRules::tag_value(const Value& value) {
  const Json& schema = resolved(value.schema, value.root);
  const std::vector<std::string> types = types_of(schema, value.root);
  if (has(types, "string")) {
    const std::vector<std::string> texts = texts_of(schema);
    if (only(types, "string") && !texts.empty()) {
      std::vector<NodeId> nodes;
      nodes.reserve(texts.size());
      for (const std::string& text : texts) nodes.push_back(rules_.text(text));
      return rules_.choice(nodes);
    }
    for (const char* keyword : {"pattern", "format", "minLength", "maxLength"}) {
      if (!schema.is_object() || !schema.contains(keyword)) continue;
      notes_.push_back(concat(value.place, ": '", keyword, "' is not kept in this model's format"));
    }
    const std::string_view end = syntax_.format()->value_end;
    const std::string_view tag = end.substr(end.find('<'));
    return text_without(rules_, std::string(tag.substr(0, tag.find('>') + 1)));
  }
  // References inside of the schema mean places of the whole.
  Json whole = schema;
  for (const char* name : {"$defs", "definitions"}) {
    if (value.root.contains(name)) whole[name] = value.root[name];
  }
  return json(whole, value.place);
}

}  // namespace skald
