// A small JSON tree for the JSON files of Hugging Face tokenizers. Error messages name the place of
// a value and what was expected there. String lengths, depth and number of values are bounded.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace skald {

struct JsonValue {
  using Array = std::vector<JsonValue>;
  using Object = std::vector<std::pair<std::string, JsonValue>>;
  std::variant<std::nullptr_t, bool, int64_t, double, std::string, Array, Object> value = nullptr;

  bool is_null() const { return std::holds_alternative<std::nullptr_t>(value); }
  bool is_text() const { return std::holds_alternative<std::string>(value); }
  bool is_object() const { return std::holds_alternative<Object>(value); }
};

// A value and its place in the file, for messages such as "tokenizer.json: pre_tokenizer:
// behavior". Borrows the tree. Lookups throw Error(Exit::Model) if the value has another type.
class JsonPlace {
 public:
  JsonPlace(const JsonValue& value, std::string where) : value_(&value), where_(std::move(where)) {}

  const std::string& where() const { return where_; }
  bool is_null() const { return value_->is_null(); }
  bool is_text() const { return value_->is_text(); }
  bool is_object() const { return value_->is_object(); }

  // Members of an object. has(): the member exists and is not null. operator[]: an absent member is
  // a null value.
  bool has(std::string_view key) const;
  JsonPlace operator[](std::string_view key) const;
  std::vector<JsonPlace> elements() const;  // elements of an array
  std::vector<std::pair<std::string_view, JsonPlace>> members() const;

  const std::string& text() const;
  bool boolean() const;
  int64_t integer() const;
  bool boolean_or(std::string_view key, bool otherwise) const;
  std::string text_or(std::string_view key, std::string_view otherwise) const;

  // Throws an Error if the object has a member with another name: unknown members could change the
  // result.
  void know_only(std::initializer_list<std::string_view> keys) const;

 private:
  [[noreturn]] void expected(std::string_view what) const;

  const JsonValue* value_;
  std::string where_;
};

}  // namespace skald
