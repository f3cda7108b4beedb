#include "tokenizer/text/json_value.h"

#include <algorithm>

#include "engine/base/error.h"
#include "engine/base/printable.h"

namespace skald {
namespace {

const JsonValue kNull;

// The last member with this name, as in other JSON readers.
const JsonValue* find(const JsonValue& value, std::string_view key) {
  const auto* object = std::get_if<JsonValue::Object>(&value.value);
  if (!object) return nullptr;
  const auto found = std::find_if(object->rbegin(), object->rend(),
                                  [&](const auto& member) { return member.first == key; });
  return found == object->rend() ? nullptr : &found->second;
}

std::string described(const JsonValue& value) {
  struct Describe {
    std::string operator()(std::nullptr_t) const { return "null"; }
    std::string operator()(bool b) const { return b ? "true" : "false"; }
    std::string operator()(int64_t number) const { return concat(number); }
    std::string operator()(double number) const { return concat(number); }
    std::string operator()(const std::string& s) const {
      return concat("\"", printable(s, 40), "\"");
    }
    std::string operator()(const JsonValue::Array&) const { return "an array"; }
    std::string operator()(const JsonValue::Object&) const { return "an object"; }
  };
  return std::visit(Describe{}, value.value);
}

}  // namespace

void JsonPlace::expected(std::string_view what) const {
  fail(Exit::Model, where_, ": is ", described(*value_), ", expected ", what);
}

bool JsonPlace::has(std::string_view key) const {
  const JsonValue* found = find(*value_, key);
  return found && !found->is_null();
}

JsonPlace JsonPlace::operator[](std::string_view key) const {
  const JsonValue* found = find(*value_, key);
  return {found ? *found : kNull, concat(where_, ": ", printable(key, 60))};
}

std::vector<JsonPlace> JsonPlace::elements() const {
  const auto* array = std::get_if<JsonValue::Array>(&value_->value);
  if (!array) expected("an array");
  std::vector<JsonPlace> out;
  for (const JsonValue& element : *array) {
    out.emplace_back(element, concat(where_, ": ", out.size()));
  }
  return out;
}

std::vector<std::pair<std::string_view, JsonPlace>> JsonPlace::members() const {
  const auto* object = std::get_if<JsonValue::Object>(&value_->value);
  if (!object) expected("an object");
  std::vector<std::pair<std::string_view, JsonPlace>> out;
  for (const auto& [key, value] : *object) {
    out.emplace_back(key, JsonPlace(value, concat(where_, ": ", printable(key, 60))));
  }
  return out;
}

const std::string& JsonPlace::text() const {
  const auto* text = std::get_if<std::string>(&value_->value);
  if (!text) expected("a string");
  return *text;
}

bool JsonPlace::boolean() const {
  const auto* boolean = std::get_if<bool>(&value_->value);
  if (!boolean) expected("true or false");
  return *boolean;
}

int64_t JsonPlace::integer() const {
  const auto* integer = std::get_if<int64_t>(&value_->value);
  if (!integer) expected("a whole number");
  return *integer;
}

bool JsonPlace::boolean_or(std::string_view key, bool otherwise) const {
  return has(key) ? (*this)[key].boolean() : otherwise;
}

std::string JsonPlace::text_or(std::string_view key, std::string_view otherwise) const {
  return has(key) ? (*this)[key].text() : std::string(otherwise);
}

void JsonPlace::know_only(std::initializer_list<std::string_view> keys) const {
  for (const auto& [key, member] : members()) {
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
      fail(Exit::Model, where_, ": has '", printable(key, 60), "', which skald does not support");
    }
  }
}

}  // namespace skald
