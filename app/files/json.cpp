#include "app/files/json.h"

namespace skald {

std::string dump(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

Json parse_json(std::string_view text) { return Json::parse(text); }

Json parse_json_or_null(std::string_view text) {
  Json json = Json::parse(text, nullptr, false);
  return json.is_discarded() ? Json() : json;
}

Json parse_json(std::string_view text, const std::function<bool(int depth)>& keep) {
  return Json::parse(text, [&](int depth, Json::parse_event_t, Json&) { return keep(depth); });
}

}  // namespace skald
