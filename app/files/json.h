// Reads and writes JSON. json.cpp alone instantiates the parser and the writer of nlohmann/json,
// which take seconds in every file that calls them: call these functions, not Json::parse() or
// dump().
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string_view>

#include "app/files/json_fwd.h"

namespace skald {

Json parse_json(std::string_view text);          // throws Json::exception
Json parse_json_or_null(std::string_view text);  // null for a text that is not valid JSON

// `check` is called with the depth of each list and object, from 0. Throws Json::exception, and
// what `check` throws.
Json parse_json(std::string_view text, const std::function<void(int depth)>& check);

}  // namespace skald
