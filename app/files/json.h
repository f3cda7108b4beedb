// JSON whose keys keep their order. dump() turns invalid UTF-8 in a text into U+FFFD.
#pragma once

#include <nlohmann/json.hpp>

namespace skald {

using Json = nlohmann::ordered_json;

inline std::string dump(const Json& json, int indent = -1) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace skald
