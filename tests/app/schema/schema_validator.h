// Decides whether a JSON value is valid by a schema. Covers the part of JSON Schema that
// app/schema/json_schema.h supports, written independently: over values instead of texts. Unknown
// formats throw.
#pragma once

#include <cmath>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>

namespace skald::test {

class SchemaValidator {
 public:
  using Value = nlohmann::ordered_json;

  explicit SchemaValidator(const Value& root) : root_(root) {}
  bool valid(const Value& value) const { return valid(root_, value); }

 private:
  static bool has_type(const Value& value, const std::string& type) {
    if (type == "integer") {
      return value.is_number() && std::floor(value.get<double>()) == value.get<double>();
    }
    return type == (value.is_number() ? "number" : value.type_name());
  }

  static size_t length(const std::string& text) {
    size_t count = 0;
    for (const char c : text) count += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
    return count;
  }

  bool valid(const Value& schema, const Value& value) const {
    if (schema.is_boolean()) return schema.get<bool>();
    for (const auto& [keyword, rule] : schema.items()) {
      if (!holds(schema, keyword, rule, value)) return false;
    }
    return true;
  }

  bool holds(const Value& schema, const std::string& keyword, const Value& rule,
             const Value& value) const {
    const auto any = [&](const Value& schemas) {
      int count = 0;
      for (const Value& s : schemas) count += valid(s, value);
      return count;
    };
    if (keyword == "$ref") {
      const Value& target = root_.at(Value::json_pointer(rule.get<std::string>().substr(1)));
      // A reference that leads back to itself without a step into the value never makes the value
      // valid.
      const auto [place, fresh] = open_.emplace(&target, &value);
      const bool holds = fresh && valid(target, value);
      if (fresh) open_.erase(place);
      return holds;
    }
    if (keyword == "type") {
      if (rule.is_string()) return has_type(value, rule);
      for (const Value& type : rule) {
        if (has_type(value, type)) return true;
      }
      return false;
    }
    if (keyword == "enum") return std::find(rule.begin(), rule.end(), value) != rule.end();
    if (keyword == "const") return value == rule;
    if (keyword == "anyOf") return any(rule) > 0;
    if (keyword == "oneOf") return any(rule) == 1;
    if (keyword == "allOf") return any(rule) == static_cast<int>(rule.size());
    if (value.is_object()) return holds_for_object(schema, keyword, rule, value);
    if (value.is_array()) return holds_for_array(schema, keyword, rule, value);
    if (value.is_string()) return holds_for_string(keyword, rule, value.get<std::string>());
    if (value.is_number()) return holds_for_number(keyword, rule, value.get<double>());
    return true;
  }

  bool holds_for_object(const Value& schema, const std::string& keyword, const Value& rule,
                        const Value& value) const {
    if (keyword == "required") {
      for (const Value& name : rule) {
        if (!value.contains(name.get<std::string>())) return false;
      }
    }
    if (keyword == "minProperties") return value.size() >= rule.get<size_t>();
    if (keyword == "maxProperties") return value.size() <= rule.get<size_t>();
    for (const auto& [name, member] : value.items()) {
      const bool named = schema.contains("properties") && schema["properties"].contains(name);
      bool patterned = false;
      if (schema.contains("patternProperties")) {
        for (const auto& [pattern, expected] : schema["patternProperties"].items()) {
          if (!std::regex_search(name, std::regex(pattern))) continue;
          patterned = true;
          if (keyword == "patternProperties" && !valid(expected, member)) return false;
        }
      }
      if (keyword == "properties" && named && !valid(rule[name], member)) return false;
      if (keyword == "additionalProperties" && !named && !patterned && !valid(rule, member)) {
        return false;
      }
      if (keyword == "propertyNames" && !valid(rule, Value(name))) return false;
    }
    return true;
  }

  bool holds_for_array(const Value& schema, const std::string& keyword, const Value& rule,
                       const Value& value) const {
    if (keyword == "minItems") return value.size() >= rule.get<size_t>();
    if (keyword == "maxItems") return value.size() <= rule.get<size_t>();
    const size_t prefix = schema.contains("prefixItems") ? schema["prefixItems"].size() : 0;
    for (size_t i = 0; i < value.size(); ++i) {
      if (keyword == "prefixItems" && i < prefix && !valid(rule[i], value[i])) return false;
      if (keyword == "items" && i >= prefix && !valid(rule, value[i])) return false;
    }
    return true;
  }

  static bool holds_for_string(const std::string& keyword, const Value& rule,
                               const std::string& text) {
    if (keyword == "minLength") return length(text) >= rule.get<size_t>();
    if (keyword == "maxLength") return length(text) <= rule.get<size_t>();
    if (keyword == "pattern") return std::regex_search(text, std::regex(rule.get<std::string>()));
    if (keyword == "format" && rule == "date") {
      return std::regex_match(text, std::regex("\\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\\d|3[01])"));
    }
    if (keyword == "format" && rule == "date-time") {
      return std::regex_match(
          text,
          std::regex(
              "\\d{4}-\\d\\d-\\d\\d[Tt]\\d\\d:\\d\\d:\\d\\d(\\.\\d+)?([Zz]|[+-]\\d\\d:\\d\\d)"));
    }
    if (keyword == "format" && rule == "uuid") {
      return std::regex_match(text,
                              std::regex("[\\da-fA-F]{8}(-[\\da-fA-F]{4}){3}-[\\da-fA-F]{12}"));
    }
    if (keyword == "format") throw std::logic_error("no such format in the test");
    return true;
  }

  static bool holds_for_number(const std::string& keyword, const Value& rule, double number) {
    if (keyword == "minimum") return number >= rule.get<double>();
    if (keyword == "maximum") return number <= rule.get<double>();
    if (keyword == "exclusiveMinimum") return number > rule.get<double>();
    if (keyword == "exclusiveMaximum") return number < rule.get<double>();
    return true;
  }

  const Value& root_;
  mutable std::set<std::pair<const Value*, const Value*>> open_;  // references being followed
};

}  // namespace skald::test
