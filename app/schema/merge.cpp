#include "app/schema/merge.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "app/files/json.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"

namespace skald {
namespace {

constexpr int kMostReferences = 100;
constexpr size_t kMostChoices = 256;

constexpr std::string_view kAnnotations[] = {"title",
                                             "description",
                                             "default",
                                             "examples",
                                             "example",
                                             "deprecated",
                                             "readOnly",
                                             "writeOnly",
                                             "$schema",
                                             "$id",
                                             "id",
                                             "$comment",
                                             "$anchor",
                                             "$vocabulary",
                                             "contentEncoding",
                                             "contentMediaType",
                                             "contentSchema",
                                             "discriminator",
                                             "xml",
                                             "externalDocs",
                                             "$defs",
                                             "definitions"};
constexpr std::string_view kSupported[] = {"type",
                                           "enum",
                                           "const",
                                           "anyOf",
                                           "oneOf",
                                           "allOf",
                                           "$ref",
                                           "nullable",
                                           "properties",
                                           "required",
                                           "additionalProperties",
                                           "patternProperties",
                                           "propertyNames",
                                           "minProperties",
                                           "maxProperties",
                                           "items",
                                           "prefixItems",
                                           "additionalItems",
                                           "minItems",
                                           "maxItems",
                                           "uniqueItems",
                                           "minLength",
                                           "maxLength",
                                           "pattern",
                                           "format",
                                           "minimum",
                                           "maximum",
                                           "exclusiveMinimum",
                                           "exclusiveMaximum",
                                           "multipleOf",
                                           "unevaluatedProperties",
                                           "unevaluatedItems"};
constexpr std::string_view kRefused[] = {"not",
                                         "if",
                                         "contains",
                                         "minContains",
                                         "maxContains",
                                         "dependencies",
                                         "dependentRequired",
                                         "dependentSchemas",
                                         "$dynamicRef",
                                         "$recursiveRef",
                                         "$dynamicAnchor",
                                         "$recursiveAnchor"};

template <size_t n>
bool among(const std::string_view (&list)[n], std::string_view word) {
  return std::find(std::begin(list), std::end(list), word) != std::end(list);
}

bool is_false(const Json& schema) { return schema.is_boolean() && !schema.get<bool>(); }
bool is_true(const Json& schema) { return schema.is_boolean() && schema.get<bool>(); }

Json both(const Json& a, const Json& b) {
  if (a == b || is_true(b)) return a;
  if (is_true(a)) return b;
  if (is_false(a) || is_false(b)) return false;
  return Json{{"allOf", Json::array({a, b})}};
}

std::vector<std::string> listed_types(const Json& type) {
  std::vector<std::string> types;
  if (type.is_string()) types.push_back(type.get<std::string>());
  if (type.is_array()) {
    for (const Json& one : type) {
      if (one.is_string()) types.push_back(one.get<std::string>());
    }
  }
  return types;
}

Json common_types(const Json& a, const Json& b) {
  const auto x = listed_types(a), y = listed_types(b);
  const auto has = [](const auto& list, const std::string& t) {
    return std::find(list.begin(), list.end(), t) != list.end();
  };
  Json types = Json::array();
  for (const std::string& type : x) {
    if (has(y, type)) types.push_back(type);
    if (type == "integer" && !has(y, type) && has(y, "number")) types.push_back(type);
    if (type == "number" && !has(y, type) && has(y, "integer")) types.push_back("integer");
  }
  return types;
}

Json common_values(const Json& a, const Json& b) {
  Json values = Json::array();
  for (const Json& value : a) {
    if (std::find(b.begin(), b.end(), value) != b.end()) values.push_back(value);
  }
  return values;
}

}  // namespace

bool is_annotation(std::string_view keyword) {
  return among(kAnnotations, keyword) || keyword.starts_with("x-");
}

bool has_constraints(const Json& schema) {
  if (!schema.is_object()) return true;
  for (const auto& [keyword, value] : schema.items()) {
    if (!is_annotation(keyword)) return true;
  }
  return false;
}

void SchemaDocument::check_keywords(const Json& schema, const std::string& path) const {
  for (const auto& [keyword, value] : schema.items()) {
    if (is_annotation(keyword) || among(kSupported, keyword)) continue;
    if ((keyword == "then" || keyword == "else") && !schema.contains("if")) continue;
    const std::string here = path + "/" + keyword;
    if (among(kRefused, keyword) || keyword == "then" || keyword == "else") {
      refuse(here, concat("the keyword '", keyword,
                          "' is not supported, and output that ignores it might not be valid"));
    }
    const std::string_view meant = nearest(keyword, kSupported);
    refuse(here, concat("unknown keyword '", printable(keyword, 60), "'",
                        meant.empty() ? "; begin the names of your own notes with x-"
                                      : concat(", did you mean '", meant, "'?")));
  }
}

std::vector<std::string> types_of(const Json& schema) {
  if (schema.contains("type")) return listed_types(schema["type"]);
  struct Hint {
    const char* type;
    std::vector<const char*> keywords;
  };
  static const Hint kHints[] = {
      {"object",
       {"properties", "required", "additionalProperties", "patternProperties", "propertyNames",
        "minProperties", "maxProperties"}},
      {"array", {"items", "prefixItems", "minItems", "maxItems", "uniqueItems"}},
      {"string", {"minLength", "maxLength", "pattern", "format"}},
      {"number", {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}}};
  std::vector<std::string> types;
  for (const Hint& hint : kHints) {
    const auto has = [&](const char* keyword) { return schema.contains(keyword); };
    if (std::any_of(hint.keywords.begin(), hint.keywords.end(), has)) types.push_back(hint.type);
  }
  if (types.empty()) types = {"object", "array", "string", "number", "boolean", "null"};
  return types;
}

void SchemaDocument::refuse(const std::string& path, const std::string& what) const {
  fail(Exit::Usage, source_, ": ", printable(path), ": ", what);
}

const Json& SchemaDocument::target(const std::string& reference, const std::string& path) const {
  if (reference == "#") return root_;
  if (!reference.starts_with("#/")) {
    refuse(path, concat("$ref '", printable(reference),
                        "' refers to another document; only #/... is supported"));
  }
  const Json* at = &root_;
  for (size_t begin = 2; begin <= reference.size();) {
    const size_t end = std::min(reference.find('/', begin), reference.size());
    std::string part;
    for (size_t i = begin; i < end; ++i) {
      const char c = reference[i];
      int code = 0;
      if (c == '~' && i + 1 < end && (reference[i + 1] == '0' || reference[i + 1] == '1')) {
        part += reference[++i] == '0' ? '~' : '/';
      } else if (c == '%' && i + 2 < end &&
                 std::from_chars(&reference[i + 1], &reference[i + 3], code, 16).ptr ==
                     &reference[i + 3]) {
        part += static_cast<char>(code);
        i += 2;
      } else {
        part += c;
      }
    }
    const Json* next = nullptr;
    if (at->is_object() && at->contains(part)) next = &(*at)[part];
    if (at->is_array()) {
      size_t index = 0;
      const auto parsed = std::from_chars(part.data(), part.data() + part.size(), index);
      const bool whole = parsed.ec == std::errc() && parsed.ptr == part.data() + part.size();
      if (whole && index < at->size()) next = &(*at)[index];
    }
    if (!next) {
      refuse(path,
             concat("$ref '", printable(reference), "' refers to a place that does not exist"));
    }
    at = next;
    begin = end + 1;
  }
  return *at;
}

Json SchemaDocument::resolved(const Json& schema, const std::string& path) const {
  return resolved_at(schema, path, 0);
}

Json SchemaDocument::resolved_at(const Json& schema, const std::string& path, int depth) const {
  if (!schema.is_object() || !schema.contains("$ref")) return schema;
  if (depth > kMostReferences) {
    refuse(path,
           concat("$ref leads in a circle, or through more than ", kMostReferences, " references"));
  }
  if (!schema["$ref"].is_string()) refuse(path, "$ref: expected a string");
  Json rest = schema;
  rest.erase("$ref");
  const Json& to = target(schema["$ref"].get<std::string>(), path);
  if (!has_constraints(rest)) return resolved_at(to, path, depth + 1);
  return merged_at(to, rest, path, depth + 1);
}

Json SchemaDocument::merged(const Json& a, const Json& b, const std::string& path) const {
  return merged_at(a, b, path, 0);
}

Json SchemaDocument::merged_at(const Json& first, const Json& second, const std::string& path,
                               int depth) const {
  const Json a = resolved_at(first, path, depth + 1), b = resolved_at(second, path, depth + 1);
  if (a.is_boolean() || b.is_boolean()) return both(a, b);
  if (!a.is_object() || !b.is_object()) refuse(path, "expected a schema: an object, true or false");
  Json result = a;
  for (const char* notes : {"$defs", "definitions"}) result.erase(notes);
  for (const auto& [keyword, value] : b.items()) {
    if (is_annotation(keyword)) continue;
    if (!a.contains(keyword)) {
      result[keyword] = value;
    } else if (a[keyword] != value) {
      if (!merge_keyword(result, keyword, a[keyword], value, path)) return false;
    }
  }
  merge_members(result, a, b, path);
  return result;
}

bool SchemaDocument::merge_keyword(Json& into, const std::string& keyword, const Json& a,
                                   const Json& b, const std::string& path) const {
  const bool larger = keyword.starts_with("min") || keyword == "exclusiveMinimum";
  const bool smaller = keyword.starts_with("max") || keyword == "exclusiveMaximum";
  Json& value = into[keyword];
  if ((larger || smaller) && a.is_number() && b.is_number()) {
    value = larger == (a < b) ? b : a;
  } else if (keyword == "type") {
    value = common_types(a, b);
    return !value.empty();
  } else if (keyword == "enum" && a.is_array() && b.is_array()) {
    value = common_values(a, b);
  } else if (keyword == "const") {
    return false;
  } else if (keyword == "required" && a.is_array() && b.is_array()) {
    for (const Json& name : b) {
      if (std::find(a.begin(), a.end(), name) == a.end()) value.push_back(name);
    }
  } else if (keyword == "allOf" && a.is_array() && b.is_array()) {
    for (const Json& part : b) value.push_back(part);
  } else if ((keyword == "anyOf" || keyword == "oneOf") && a.is_array() && b.is_array()) {
    if (a.size() * b.size() > kMostChoices) {
      refuse(path, concat("allOf combines several ", keyword, " into more than ", kMostChoices,
                          " choices"));
    }
    value = Json::array();
    for (const Json& x : a) {
      for (const Json& y : b) value.push_back(both(x, y));
    }
  } else if (keyword == "items" || keyword == "additionalProperties") {
    value = both(a, b);
  } else if (keyword == "uniqueItems" || keyword == "nullable") {
    const bool unique = keyword == "uniqueItems";
    const bool x = a.is_boolean() && a.get<bool>(), y = b.is_boolean() && b.get<bool>();
    value = unique ? x || y : x && y;
  } else if (keyword != "properties") {
    refuse(path, concat("'", keyword,
                        "' differs in several parts that must all be valid, which is not "
                        "supported; write it once"));
  }
  return true;
}

// Merges `properties`. A member that only one schema names must be valid by the other schema's
// additionalProperties.
void SchemaDocument::merge_members(Json& into, const Json& a, const Json& b,
                                   const std::string& path) const {
  const Json none = Json::object();
  const auto members = [&](const Json& schema) -> const Json& {
    return schema.contains("properties") && schema["properties"].is_object() ? schema["properties"]
                                                                             : none;
  };
  const Json &x = members(a), &y = members(b);
  if (x.empty() && y.empty()) return;
  const bool patterns = a.contains("patternProperties") || b.contains("patternProperties");
  if (patterns && a != b) {
    refuse(path,
           "patternProperties is not supported in schemas that allOf or $ref combines with others");
  }
  const auto rule = [](const Json& schema, const Json& named, const std::string& name) -> Json {
    if (named.contains(name)) return named[name];
    return schema.value("additionalProperties", Json(true));
  };
  Json result = Json::object();
  for (const Json* side : {&x, &y}) {
    for (const auto& [name, value] : side->items()) {
      if (!result.contains(name)) result[name] = both(rule(a, x, name), rule(b, y, name));
    }
  }
  into["properties"] = std::move(result);
}

bool SchemaDocument::disjoint(const Json& first, const Json& second,
                              const std::string& path) const {
  const Json a = resolved(first, path), b = resolved(second, path);
  if (!a.is_object() || !b.is_object()) return is_false(a) || is_false(b);
  const auto values = [](const Json& s) {
    if (s.contains("const")) return Json::array({s["const"]});
    return s.contains("enum") && s["enum"].is_array() ? s["enum"] : Json();
  };
  const Json x = values(a), y = values(b);
  if (x.is_array() && y.is_array()) return common_values(x, y).empty();
  if (a.contains("type") && b.contains("type") && common_types(a["type"], b["type"]).empty()) {
    return !(a.value("nullable", false) && b.value("nullable", false));
  }
  const auto needs = [](const Json& s, const std::string& name) {
    const Json& list = s.contains("required") ? s["required"] : Json::array();
    return list.is_array() && std::find(list.begin(), list.end(), Json(name)) != list.end();
  };
  if (!a.contains("properties") || !b.contains("properties")) return false;
  if (!a["properties"].is_object() || !b["properties"].is_object()) return false;
  if (types_of(a) != std::vector<std::string>{"object"} || types_of(a) != types_of(b)) return false;
  for (const auto& [name, value] : a["properties"].items()) {
    if (!b["properties"].contains(name) || !needs(a, name) || !needs(b, name)) continue;
    const Json p = values(resolved(value, path));
    const Json q = values(resolved(b["properties"][name], path));
    if (p.is_array() && q.is_array() && common_values(p, q).empty()) return true;
  }
  return false;
}

}  // namespace skald
