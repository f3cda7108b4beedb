// JSON inside of an answer, as it is written: without a change of numbers, spaces or the order of
// members.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace skald {

// The valid JSON object or list that `text` begins with, or nullopt.
std::optional<std::string_view> json_at_begin(std::string_view text);

// A value that Python's repr() may have written, as JSON: texts between ', True, False and None. It
// need not become valid JSON.
std::string json_of_python(std::string_view text);

// The elements of a list as json_at_begin() gives it.
std::vector<std::string_view> json_elements(std::string_view list);

// The members of an object: names as texts, values as they are written. nullopt: not an object.
using JsonMembers = std::vector<std::pair<std::string, std::string_view>>;
std::optional<JsonMembers> json_members(std::string_view object);

}  // namespace skald
