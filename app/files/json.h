// JSON for reports, written as it is built: keys keep their order. Text is escaped, and invalid
// UTF-8 in it becomes U+FFFD.
#pragma once

#include <nlohmann/json.hpp>

namespace skald {

using Json = nlohmann::ordered_json;

inline std::string dump(const Json& json, int indent = -1) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace skald
