#include "app/tools/gemma_arguments.h"

#include <string>

#include "app/tools/format.h"

namespace skald {
namespace {

constexpr int kMostDepth = 64;

std::optional<Json> read_value(CallCursor& cursor, int depth);

bool take_members(CallCursor& cursor, int depth, Json& object) {
  object = Json::object();
  if (cursor.next("}")) return true;
  do {
    std::string_view name;
    if (cursor.take(kGemmaQuote)) {
      if (!cursor.take_until(kGemmaQuote, name) || !cursor.take(":")) return false;
    } else {
      cursor.skip_space();
      if (!cursor.take_until(":", name)) return false;
      if (name.find_first_of("{}[],") != std::string_view::npos) return false;
    }
    std::optional<Json> value = read_value(cursor, depth + 1);
    if (!value) return false;
    object[std::string(name)] = *std::move(value);
  } while (cursor.take(","));
  return cursor.next("}");
}

bool take_items(CallCursor& cursor, int depth, Json& list) {
  list = Json::array();
  if (cursor.take("]")) return true;
  do {
    std::optional<Json> value = read_value(cursor, depth + 1);
    if (!value) return false;
    list.push_back(*std::move(value));
  } while (cursor.take(","));
  return cursor.take("]");
}

std::optional<Json> read_value(CallCursor& cursor, int depth) {
  if (depth > kMostDepth) return std::nullopt;
  std::string_view text;
  if (cursor.take(kGemmaQuote)) {
    if (!cursor.take_until(kGemmaQuote, text)) return std::nullopt;
    return Json(std::string(text));
  }
  Json value;
  if (cursor.take("{")) {
    if (!take_members(cursor, depth, value) || !cursor.take("}")) return std::nullopt;
    return value;
  }
  if (cursor.take("[")) {
    if (!take_items(cursor, depth, value)) return std::nullopt;
    return value;
  }
  cursor.skip_space();
  const std::string_view rest = cursor.rest();
  const size_t end = rest.find_first_of(",}]");
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view word = rest.substr(0, rest.find_last_not_of(kCallSpace, end - 1) + 1);
  cursor.skip(end);
  if (word == "None" || word == "null") return Json(nullptr);
  value = parse_json_or_null(word);
  return value.is_null() ? std::nullopt : std::optional<Json>(std::move(value));
}

}  // namespace

std::optional<Json> read_gemma_arguments(CallCursor& cursor) {
  Json object;
  if (!take_members(cursor, 0, object)) return std::nullopt;
  return object;
}

}  // namespace skald
