// Reads the keywords of one schema.
#include <algorithm>

#include "app/files/json.h"
#include "app/schema/expander.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"

namespace skald {
namespace {

constexpr std::string_view kKnown[] = {
    // that say what is valid
    "type", "nullable", "enum", "const", "anyOf", "oneOf", "allOf", "not", "if", "then", "else",
    "$ref", "$dynamicRef", "properties", "required", "additionalProperties", "patternProperties",
    "propertyNames", "minProperties", "maxProperties", "dependentRequired", "dependentSchemas",
    "dependencies", "unevaluatedProperties", "items", "prefixItems", "additionalItems", "contains",
    "minContains", "maxContains", "minItems", "maxItems", "uniqueItems", "unevaluatedItems",
    "minLength", "maxLength", "pattern", "format", "minimum", "maximum", "exclusiveMinimum",
    "exclusiveMaximum", "multipleOf",
    // that are notes for people and programs
    "title", "description", "default", "examples", "example", "deprecated", "readOnly", "writeOnly",
    "$schema", "$id", "id", "$comment", "$anchor", "$dynamicAnchor", "$vocabulary",
    "contentEncoding", "contentMediaType", "contentSchema", "discriminator", "xml", "externalDocs",
    "$defs", "definitions"};
constexpr size_t kMostUnknown = 30;

}  // namespace

const Json* Expander::find(const SchemaPlace& place, const char* keyword) const {
  const auto found = place.schema->find(keyword);
  return found == place.schema->end() ? nullptr : &*found;
}

bool Expander::is_true(const SchemaPlace& place, const char* keyword) const {
  const Json* value = find(place, keyword);
  return value && value->is_boolean() && value->get<bool>();
}

void Expander::check_keywords(const SchemaPlace& place) {
  for (const auto& [keyword, value] : place.schema->items()) {
    const std::string_view word = keyword;
    if (word.starts_with("x-")) continue;
    if (std::find(std::begin(kKnown), std::end(kKnown), word) != std::end(kKnown)) continue;
    const auto known = std::find(unknown_.begin(), unknown_.end(), keyword);
    if (known == unknown_.end() && unknown_.size() < kMostUnknown) unknown_.push_back(keyword);
  }
}

uint64_t Expander::count(const SchemaPlace& place, const char* keyword, uint64_t missing) const {
  const Json* number = find(place, keyword);
  if (!number) return missing;
  const double value = number->is_number() ? number->get<double>() : -1;
  if (!(value >= 0) ||
      (value < 1e15 && value != static_cast<double>(static_cast<uint64_t>(value)))) {
    document_.refuse(concat(place.path, "/", keyword), "expected a whole number, 0 or more");
  }
  if (value >= 1e15)
    return std::string_view(keyword).starts_with("max") ? kNoLimit : uint64_t{1} << 50;
  return static_cast<uint64_t>(value);
}

std::optional<NumberBound> Expander::bound(const SchemaPlace& place, const char* keyword,
                                           bool exclusive) const {
  const Json* number = find(place, keyword);
  if (!number || (number->is_boolean() && exclusive)) return std::nullopt;  // draft 4
  const std::string path = concat(place.path, "/", keyword);
  if (!number->is_number()) document_.refuse(path, "expected a number");
  auto result = number_bound(*number, exclusive);
  if (!result) document_.refuse(path, "the exponent is out of bounds");
  return result;
}

std::vector<std::string> Expander::names(const Json& list, const std::string& path) const {
  std::vector<std::string> result;
  if (!list.is_array()) document_.refuse(path, "expected an array of names");
  for (const Json& name : list) {
    if (!name.is_string()) document_.refuse(path, "expected an array of names");
    if (const auto text = name.get<std::string>();
        std::find(result.begin(), result.end(), text) == result.end()) {
      result.push_back(text);
    }
  }
  return result;
}

}  // namespace skald
