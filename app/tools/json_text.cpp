#include "app/tools/json_text.h"

#include <algorithm>
#include <iterator>

#include "app/files/json.h"

namespace skald {
namespace {

constexpr std::string_view kSpace = " \t\r\n";

std::string_view without_space(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(kSpace), text.size()));
  return text.substr(0, text.find_last_not_of(kSpace) + 1);
}

// The length of the value at the begin of `text` up to one of `ends` outside of it; npos: none.
size_t length_until(std::string_view text, std::string_view ends) {
  int depth = 0;
  bool in_text = false;
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (in_text) {
      if (c == '\\') ++at;
      in_text = c != '"';
    } else if (depth == 0 && ends.find(c) != std::string_view::npos) {
      return at;
    } else if (c == '"') {
      in_text = true;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if (c == '}' || c == ']') {
      if (--depth < 0) return std::string_view::npos;
    }
  }
  return std::string_view::npos;
}

// Returns the end of the object or list at the text's beginning; npos: it does not end.
size_t length_of_value(std::string_view text) {
  const size_t inside = length_until(text.substr(1), "}]");
  return inside == std::string_view::npos ? inside : inside + 2;
}

bool valid(std::string_view text) {
  constexpr int kMostDepth = 200;
  struct TooDeep {};
  try {
    parse_json(text, [](int depth) {
      if (depth > kMostDepth) throw TooDeep();
    });
    return true;
  } catch (const Json::exception&) {
    return false;
  } catch (const TooDeep&) {
    return false;
  }
}

}  // namespace

std::optional<std::string_view> json_at_begin(std::string_view text) {
  if (text.empty() || (text[0] != '{' && text[0] != '[')) return std::nullopt;
  const size_t length = length_of_value(text);
  if (length == std::string_view::npos || !valid(text.substr(0, length))) return std::nullopt;
  return text.substr(0, length);
}

std::string json_of_python(std::string_view text) {
  constexpr std::pair<std::string_view, std::string_view> kWords[] = {
      {"True", "true"}, {"False", "false"}, {"None", "null"}};
  std::string json;
  char quote = 0;  // of the text around, or 0
  while (!text.empty()) {
    const char c = text.front();
    size_t taken = 1;
    if (quote != 0) {
      if (c == '\\' && text.size() > 1) {
        taken = 2;
        json += text[1] == '\'' ? "'" : text.substr(0, 2);
      } else if (c == quote) {
        json += '"';
        quote = 0;
      } else {
        json += c == '"' ? "\\\"" : text.substr(0, 1);
      }
    } else if (c == '\'' || c == '"') {
      json += '"';
      quote = c;
    } else {
      const auto word = std::find_if(std::begin(kWords), std::end(kWords),
                                     [&](const auto& one) { return text.starts_with(one.first); });
      if (word == std::end(kWords)) {
        json += c;
      } else {
        json += word->second;
        taken = word->first.size();
      }
    }
    text.remove_prefix(taken);
  }
  return json;
}

std::vector<std::string_view> json_elements(std::string_view list) {
  std::vector<std::string_view> elements;
  std::string_view rest = without_space(list.substr(1));
  while (!rest.empty() && rest != "]") {
    const size_t length = length_until(rest, ",]");
    if (length == std::string_view::npos) break;
    elements.push_back(without_space(rest.substr(0, length)));
    rest = without_space(rest.substr(length + 1));
  }
  return elements;
}

std::optional<JsonMembers> json_members(std::string_view object) {
  if (!object.starts_with('{')) return std::nullopt;
  JsonMembers members;
  std::string_view rest = without_space(object.substr(1));
  while (!rest.empty() && rest != "}") {
    const size_t colon = length_until(rest, ":");
    if (colon == std::string_view::npos) return std::nullopt;
    const Json name = parse_json_or_null(rest.substr(0, colon));
    if (!name.is_string()) return std::nullopt;
    rest = without_space(rest.substr(colon + 1));
    const size_t length = length_until(rest, ",}");
    if (length == std::string_view::npos) return std::nullopt;
    members.emplace_back(name.get<std::string>(), without_space(rest.substr(0, length)));
    rest = without_space(rest.substr(length + 1));
  }
  return members;
}

}  // namespace skald
