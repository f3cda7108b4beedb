#include "app/jobs/fields.h"

#include <cmath>
#include <limits>

#include "app/files/json.h"
#include "app/jobs/line.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"

namespace skald {

void fail_field(std::string_view name, std::string_view expected, const Json& found) {
  throw LineError("invalid_request", concat("field '", name, "': expected ", expected, ", found ",
                                            printable(dump(found), 60)));
}

const Json* LineFields::find(std::string_view name) {
  known_names_.emplace(name);
  const auto found = object_.find(std::string(name));
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

bool LineFields::read(std::string_view name, bool& value) {
  const Json* found = find(name);
  if (!found) return false;
  if (!found->is_boolean()) fail_field(name, "true or false", *found);
  value = found->get<bool>();
  return true;
}

bool LineFields::read(std::string_view name, float& value) {
  const Json* found = find(name);
  if (!found) return false;
  const double number = found->is_number() ? found->get<double>() : NAN;
  if (!(std::fabs(number) <= std::numeric_limits<float>::max())) {
    fail_field(name, "a number", *found);
  }
  value = static_cast<float>(number);
  return true;
}

bool LineFields::read(std::string_view name, std::string& value) {
  const Json* found = find(name);
  if (!found) return false;
  if (!found->is_string()) fail_field(name, "a text", *found);
  value = found->get<std::string>();
  return true;
}

bool LineFields::read_integer(std::string_view name, int64_t least, int64_t most, int64_t& value) {
  const Json* found = find(name);
  if (!found) return false;
  const bool fits = found->is_number_integer() &&
                    !(found->is_number_unsigned() && found->get<uint64_t>() > INT64_MAX);
  const int64_t number = fits ? found->get<int64_t>() : 0;
  if (!fits || number < least || number > most) {
    fail_field(name, concat("a whole number from ", least, " to ", most), *found);
  }
  value = number;
  return true;
}

void LineFields::ignore(std::initializer_list<std::string_view> names) {
  for (std::string_view name : names) known_names_.emplace(name);
}

std::vector<std::string> LineFields::unknown() const {
  std::vector<std::string> names;
  for (const auto& [name, value] : object_.items()) {
    if (!known_names_.contains(name)) names.push_back(name);
  }
  return names;
}

void UnknownFields::add(std::vector<std::string> names) {
  constexpr size_t kMostNames = 100;  // a hostile input could have any number
  const std::lock_guard lock(mutex_);
  for (std::string& name : names) {
    if (names_.size() < kMostNames) names_.insert(std::move(name));
  }
}

std::string UnknownFields::text() const {
  const std::lock_guard lock(mutex_);
  std::string list;
  for (const std::string& name : names_) {
    list += concat(list.empty() ? "" : ", ", printable(name, 60));
  }
  return list.empty() ? "" : concat("skald: fields without effect: ", list, "\n");
}

}  // namespace skald
