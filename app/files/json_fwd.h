// Json by name alone, for headers whose functions take or return it. Files that look into a Json
// include app/files/json.h, whose parsing takes a second and a half.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace skald {

using Json = nlohmann::ordered_json;  // keeps the order of its keys

std::string dump(const Json& json, int indent = -1);  // invalid UTF-8 in a text becomes U+FFFD

}  // namespace skald
