// The fields of a JSON object, each asked for with its type; one that is absent or null is left as
// it was. Throws BatchError for another type or value, and knows which fields nobody asked for.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "app/files/json.h"

namespace skald {

class BatchFields {
 public:
  explicit BatchFields(const Json& object) : object_(object) {}

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
  void ignore(std::initializer_list<std::string_view> names);  // known, and without effect here

  std::vector<std::string> unknown() const;

 private:
  const Json& object_;
  std::set<std::string, std::less<>> known_;
};

// "field 'x': expected a number, found \"y\""
[[noreturn]] void fail_field(std::string_view name, std::string_view expected, const Json& found);

}  // namespace skald
