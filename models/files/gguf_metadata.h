// The key-value part of a GGUF file. Keys, texts and arrays stay in the mapped file as views, so a
// vocabulary of 128 thousand pieces costs nothing until it is read. All views live as long as the
// GgufFile. Lookups check the type: a missing key or a wrong type is an Error that names file, key,
// type found and type expected.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace skald {

class GgufCursor;

enum class GgufType : uint32_t {
  U8,
  I8,
  U16,
  I16,
  U32,
  I32,
  F32,
  Bool,
  String,
  Array,
  U64,
  I64,
  F64,  // values as in the file
};

std::string_view type_name(GgufType type);  // "u32", "string", "array"

struct GgufValue {
  std::string_view key;
  GgufType type;
  GgufType element;                  // element type of an array; otherwise equal to `type`
  uint64_t count;                    // elements of an array; otherwise 1
  std::span<const std::byte> bytes;  // number: its bytes; string: its text; array: all elements

  bool is_array() const { return type == GgufType::Array; }
  std::string type_text() const;                        // "u32", "array of 512 strings"
  std::string short_text(size_t max_bytes = 72) const;  // on one line, printable on a terminal
};

class GgufMetadata {
 public:
  explicit GgufMetadata(std::string path) : path_(std::move(path)) {}  // path: for messages
  void parse(GgufCursor& cursor, uint64_t count);

  const GgufValue* find(std::string_view key) const;             // nullptr: no such key
  std::span<const GgufValue> values() const { return values_; }  // in the file's order

  uint64_t uint(std::string_view key) const;  // any integer type, not negative
  uint64_t uint_or(std::string_view key, uint64_t otherwise) const;
  int32_t token_id(std::string_view key) const;  // -1: no such key, or no possible id
  double number(std::string_view key) const;     // any integer or float type
  double number_or(std::string_view key, double otherwise) const;
  bool boolean_or(std::string_view key, bool otherwise) const;
  std::string_view text(std::string_view key) const;
  std::string_view text_or(std::string_view key, std::string_view otherwise) const;

  // Arrays; the key must exist. ints() accepts every integer type, floats() f32 and f64.
  std::vector<std::string_view> strings(std::string_view key) const;
  std::vector<float> floats(std::string_view key) const;
  std::vector<int64_t> ints(std::string_view key) const;
  std::vector<bool> booleans(std::string_view key) const;

 private:
  GgufValue parse_value(GgufCursor& cursor, std::string_view key) const;
  const GgufValue& need(std::string_view key) const;
  uint64_t to_uint(const GgufValue& value) const;
  double to_number(const GgufValue& value) const;
  [[noreturn]] void wrong_type(const GgufValue& value, std::string_view expected) const;

  std::string path_;
  std::vector<GgufValue> values_;
  std::unordered_map<std::string_view, size_t> index_;
};

}  // namespace skald
