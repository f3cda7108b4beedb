#include "models/files/gguf_metadata.h"

#include <cmath>
#include <limits>
#include <sstream>

#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "models/files/gguf_cursor.h"

namespace skald {
namespace {

// A model has about 40 keys; an index of very many keys would exhaust memory
constexpr uint64_t kMaxKeys = 65536;
constexpr uint64_t kMaxKeyBytes = 65535;  // the format's limit

struct TypeRow {
  std::string_view name;
  uint64_t bytes;  // size of an element in the file; minimum size of a string
};
constexpr TypeRow kTypes[] = {{"u8", 1},  {"i8", 1},  {"u16", 2},  {"i16", 2},    {"u32", 4},
                              {"i32", 4}, {"f32", 4}, {"bool", 1}, {"string", 8}, {"array", 12},
                              {"u64", 8}, {"i64", 8}, {"f64", 8}};

const TypeRow& row(GgufType type) { return kTypes[static_cast<size_t>(type)]; }

template <class Number>
Number load(std::span<const std::byte> bytes, uint64_t index = 0) {
  Number number;
  std::memcpy(&number, bytes.data() + index * sizeof(Number), sizeof(Number));
  return number;
}

// Calls use(number) with element `index` in its own type. Returns false if it is not a number.
template <class Use>
bool visit_number(const GgufValue& value, uint64_t index, Use&& use) {
  switch (value.element) {
    case GgufType::U8:
      use(load<uint8_t>(value.bytes, index));
      return true;
    case GgufType::I8:
      use(load<int8_t>(value.bytes, index));
      return true;
    case GgufType::U16:
      use(load<uint16_t>(value.bytes, index));
      return true;
    case GgufType::I16:
      use(load<int16_t>(value.bytes, index));
      return true;
    case GgufType::U32:
      use(load<uint32_t>(value.bytes, index));
      return true;
    case GgufType::I32:
      use(load<int32_t>(value.bytes, index));
      return true;
    case GgufType::U64:
      use(load<uint64_t>(value.bytes, index));
      return true;
    case GgufType::I64:
      use(load<int64_t>(value.bytes, index));
      return true;
    case GgufType::F32:
      use(load<float>(value.bytes, index));
      return true;
    case GgufType::F64:
      use(load<double>(value.bytes, index));
      return true;
    default:
      return false;
  }
}

bool is_integer(GgufType type) {
  return type != GgufType::F32 && type != GgufType::F64 && type != GgufType::Bool &&
         type != GgufType::String && type != GgufType::Array;
}

// Iterates over the strings of an array. Their lengths were checked when the file was opened.
class StringWalker {
 public:
  explicit StringWalker(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::string_view next() {
    const auto length = load<uint64_t>(bytes_);
    const std::string_view text(reinterpret_cast<const char*>(bytes_.data()) + 8, length);
    bytes_ = bytes_.subspan(8 + length);
    return text;
  }

 private:
  std::span<const std::byte> bytes_;
};

std::string_view as_text(const GgufValue& value) {
  return {reinterpret_cast<const char*>(value.bytes.data()), value.bytes.size()};
}

}  // namespace

std::string_view type_name(GgufType type) { return row(type).name; }

std::string GgufValue::type_text() const {
  if (!is_array()) return std::string(type_name(type));
  return concat("array of ", count, " ", type_name(element), count == 1 ? "" : "s");
}

std::string GgufValue::short_text(size_t max_bytes) const {
  const auto quoted = [&](std::string_view text) { return '"' + printable(text, max_bytes) + '"'; };
  if (type == GgufType::String) return quoted(as_text(*this));
  std::string out = is_array() ? "[" : "";
  StringWalker strings(bytes);
  for (uint64_t i = 0; i < count; ++i) {
    if (i > 0) out += ", ";
    if (out.size() > max_bytes) {
      out += "...";
      break;
    }
    if (element == GgufType::String) {
      out += quoted(strings.next());
    } else if (element == GgufType::Bool) {
      out += load<uint8_t>(bytes, i) ? "true" : "false";
    } else {
      visit_number(*this, i, [&](auto number) { out += concat(+number); });
    }
  }
  return is_array() ? out + "]" : out;
}

void GgufMetadata::parse(GgufCursor& cursor, uint64_t count) {
  constexpr uint64_t kSmallest = 8 + 4 + 1;  // length of the key, type, one byte
  cursor.check_count(count, kSmallest, "metadata entries");
  if (count > kMaxKeys) {
    fail(Exit::Model, path_, ": has ", count, " metadata entries, more than the ", kMaxKeys,
         " that skald accepts");
  }
  values_.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    const std::string_view key = cursor.read_string("a metadata key");
    if (key.empty() || key.size() > kMaxKeyBytes) {
      fail(Exit::Model, path_, ": has a metadata key of ", key.size(), " bytes, expected 1 to ",
           kMaxKeyBytes, "; the file is damaged");
    }
    values_.push_back(parse_value(cursor, key));
    if (!index_.emplace(key, i).second) {
      fail(Exit::Model, path_, ": metadata key '", printable(key),
           "' occurs twice; the file is damaged or was put together wrongly");
    }
  }
}

GgufValue GgufMetadata::parse_value(GgufCursor& cursor, std::string_view key) const {
  const auto read_type = [&] {
    const auto id = cursor.read<uint32_t>("a metadata type");
    if (id >= std::size(kTypes)) {
      fail(Exit::Model, path_, ": metadata key '", printable(key), "' has the unknown type ", id,
           " (known are 0 to ", std::size(kTypes) - 1, "); the file is damaged");
    }
    return static_cast<GgufType>(id);
  };
  GgufValue value = {key, read_type(), {}, 1, {}};
  value.element = value.type;
  if (value.type == GgufType::String) {
    const std::string_view text = cursor.read_string("a metadata text");
    value.bytes = std::as_bytes(std::span(text));
    return value;
  }
  if (value.is_array()) {
    value.element = read_type();
    value.count = cursor.read<uint64_t>("an array length");
    if (value.element == GgufType::Array) {
      fail(Exit::Model, path_, ": metadata key '", printable(key),
           "' is an array of arrays, which skald does not support");
    }
    cursor.check_count(value.count, row(value.element).bytes, "array elements");
  }
  if (value.element == GgufType::String) {
    GgufCursor start = cursor;
    for (uint64_t i = 0; i < value.count; ++i) cursor.read_string("a text in an array");
    value.bytes = start.take(cursor.position() - start.position(), "an array");
    return value;
  }
  value.bytes = cursor.take(value.count * row(value.element).bytes, "a metadata value");
  if (value.element == GgufType::Bool) {
    for (const std::byte byte : value.bytes) {
      if (byte > std::byte{1}) {
        fail(Exit::Model, path_, ": metadata key '", printable(key), "' is a bool with the value ",
             static_cast<int>(byte), ", expected 0 or 1; the file is damaged");
      }
    }
  }
  return value;
}

const GgufValue* GgufMetadata::find(std::string_view key) const {
  const auto found = index_.find(key);
  return found == index_.end() ? nullptr : &values_[found->second];
}

const GgufValue& GgufMetadata::need(std::string_view key) const {
  if (const GgufValue* value = find(key)) return *value;
  fail(Exit::Model, path_, ": metadata key '", printable(key),
       "' is missing; convert the model again with a current tool");
}

void GgufMetadata::wrong_type(const GgufValue& value, std::string_view expected) const {
  fail(Exit::Model, path_, ": metadata key '", printable(value.key), "' is ",
       value.is_array() ? "an " + value.type_text()
                        : concat("a ", value.type_text(), " ", value.short_text()),
       ", expected ", expected, "; convert the model again with a current tool");
}

uint64_t GgufMetadata::to_uint(const GgufValue& value) const {
  if (!is_integer(value.type)) wrong_type(value, "an integer");
  uint64_t result = 0;
  visit_number(value, 0, [&](auto number) {
    if (number < 0) wrong_type(value, "an integer that is not negative");
    result = static_cast<uint64_t>(number);
  });
  return result;
}

double GgufMetadata::to_number(const GgufValue& value) const {
  double result = 0;
  if (value.is_array() ||
      !visit_number(value, 0, [&](auto number) { result = static_cast<double>(number); })) {
    wrong_type(value, "a number");
  }
  return result;
}

uint64_t GgufMetadata::uint(std::string_view key) const { return to_uint(need(key)); }

uint64_t GgufMetadata::uint_or(std::string_view key, uint64_t otherwise) const {
  const GgufValue* value = find(key);
  return value ? to_uint(*value) : otherwise;
}

int32_t GgufMetadata::token_id(std::string_view key) const {
  const uint64_t id = uint_or(key, UINT64_MAX);
  return id > INT32_MAX ? -1 : static_cast<int32_t>(id);
}

double GgufMetadata::number(std::string_view key) const { return to_number(need(key)); }

double GgufMetadata::number_or(std::string_view key, double otherwise) const {
  const GgufValue* value = find(key);
  return value ? to_number(*value) : otherwise;
}

bool GgufMetadata::boolean_or(std::string_view key, bool otherwise) const {
  const GgufValue* value = find(key);
  if (!value) return otherwise;
  if (value->type != GgufType::Bool) wrong_type(*value, "a bool");
  return value->bytes[0] != std::byte{0};
}

std::string_view GgufMetadata::text(std::string_view key) const {
  const GgufValue& value = need(key);
  if (value.type != GgufType::String) wrong_type(value, "a string");
  return as_text(value);
}

std::string_view GgufMetadata::text_or(std::string_view key, std::string_view otherwise) const {
  return find(key) ? text(key) : otherwise;
}

std::vector<std::string_view> GgufMetadata::strings(std::string_view key) const {
  const GgufValue& value = need(key);
  if (!value.is_array() || value.element != GgufType::String) {
    wrong_type(value, "an array of strings");
  }
  std::vector<std::string_view> out(value.count);
  StringWalker walker(value.bytes);
  for (std::string_view& text : out) text = walker.next();
  return out;
}

std::vector<float> GgufMetadata::floats(std::string_view key) const {
  const GgufValue& value = need(key);
  if (!value.is_array() || (value.element != GgufType::F32 && value.element != GgufType::F64)) {
    wrong_type(value, "an array of f32");
  }
  std::vector<float> out(value.count);
  for (uint64_t i = 0; i < value.count; ++i) {
    visit_number(value, i, [&](auto number) { out[i] = static_cast<float>(number); });
  }
  return out;
}

std::vector<bool> GgufMetadata::booleans(std::string_view key) const {
  const GgufValue& value = need(key);
  if (!value.is_array() || value.element != GgufType::Bool) wrong_type(value, "an array of bools");
  std::vector<bool> out;
  for (const std::byte byte : value.bytes) out.push_back(byte != std::byte{0});
  return out;
}

std::vector<int64_t> GgufMetadata::ints(std::string_view key) const {
  const GgufValue& value = need(key);
  if (!value.is_array() || !is_integer(value.element)) wrong_type(value, "an array of integers");
  std::vector<int64_t> out(value.count);
  for (uint64_t i = 0; i < value.count; ++i) {
    visit_number(value, i, [&](auto number) { out[i] = static_cast<int64_t>(number); });
    if (value.element == GgufType::U64 && out[i] < 0) wrong_type(value, "integers below 2^63");
  }
  return out;
}

}  // namespace skald
