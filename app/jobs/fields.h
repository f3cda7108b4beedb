// Reads the fields of a line by name and type. A field that is absent or null changes nothing; one
// of another type or value is a LineError. unknown() lists the fields that were neither read nor
// ignored.
#pragma once

#include <cstdint>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "app/files/json_fwd.h"

namespace skald {

class LineFields {
 public:
  explicit LineFields(const Json& object) : object_(object) {}

  const Json* find(std::string_view name);  // nullptr: absent or null
  bool read(std::string_view name, bool& value);
  bool read(std::string_view name, float& value);
  bool read(std::string_view name, std::string& value);
  bool read_integer(std::string_view name, int64_t least, int64_t most, int64_t& value);
  template <class Integer>
  bool read_integer(std::string_view name, int64_t least, int64_t most, Integer& value) {
    int64_t wide = 0;
    if (!read_integer(name, least, most, wide)) return false;
    value = static_cast<Integer>(wide);
    return true;
  }
  void ignore(std::initializer_list<std::string_view> names);  // known fields without effect here

  std::vector<std::string> unknown() const;

 private:
  const Json& object_;
  std::set<std::string, std::less<>> known_names_;
};

// The names of fields without effect in any line. Any thread may add names.
class UnknownFields {
 public:
  void add(std::vector<std::string> names);
  std::string text() const;  // "skald: fields without effect: a, b\n", or ""

 private:
  mutable std::mutex mutex_;
  std::set<std::string> names_;
};

// Throws an error such as "field 'x': expected a number, found \"y\"".
[[noreturn]] void fail_field(std::string_view name, std::string_view expected, const Json& found);

}  // namespace skald
