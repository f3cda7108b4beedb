// Compiles schemas of strings and numbers.
#include <algorithm>

#include "app/files/json.h"
#include "app/schema/compiler.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"

namespace skald {

using grammar::kUnbounded;
using grammar::NodeId;
using grammar::RegexMatch;

NodeId SchemaCompiler::build_string(const Json& schema, const std::string& path) {
  const uint32_t least = count(schema, "minLength", 0, path);
  const uint32_t most = count(schema, "maxLength", kUnbounded, path);
  if (least > most) return nothing();
  const Json* pattern = find(schema, "pattern");
  const Json* format = find(schema, "format");
  if (pattern && !pattern->is_string()) refuse(path + "/pattern", "expected a string");
  if (format && !format->is_string()) refuse(path + "/format", "expected a string");
  const char* by_format = nullptr;
  if (format) {
    const auto name = format->get<std::string>();
    if (!is_format(name)) {
      refuse(path + "/format", concat("the format '", printable(name, 60),
                                      "' is not supported; use a pattern instead"));
    }
    by_format = format_pattern(name);
  }
  if (pattern && by_format) {
    refuse(path + "/pattern", "pattern and format together are not supported; leave one out");
  }
  if (!pattern && !by_format) return parts_.string_of_length(least, most);

  const std::string keyword = pattern ? "/pattern" : "/format";
  const std::string text = pattern ? pattern->get<std::string>() : std::string(by_format);
  const bool limited = least > 0 || most != kUnbounded;
  // with_length() counts only one unbounded part, so a limited pattern is anchored at its start.
  const RegexMatch match = !pattern  ? RegexMatch::Whole
                           : limited ? RegexMatch::Begin
                                     : RegexMatch::Anywhere;
  const grammar::Regex regex = parse_regex(text, concat(source_, ": ", path, keyword), match);
  if (!limited) return parts_.string_by(regex);
  const auto bounded = with_length(regex, least, most == kUnbounded ? UINT64_MAX : most);
  if (!bounded) {
    refuse(
        path + keyword,
        "with minLength or maxLength, only one part of the pattern may repeat without a limit; put "
        "the length into the pattern");
  }
  return parts_.string_by(*bounded);
}

NodeId SchemaCompiler::build_number(const Json& schema, bool integer, const std::string& path) {
  if (const Json* step = find(schema, "multipleOf")) {
    if (!step->is_number() || step->get<double>() != 1) {
      refuse(path + "/multipleOf", "multipleOf is supported only with the value 1");
    }
    integer = true;
  }
  NumberBounds bounds;
  const auto bound = [&](const char* keyword, bool exclusive, bool low) {
    const Json* number = find(schema, keyword);
    if (!number) return;
    const std::string place = concat(path, "/", keyword);
    if (number->is_boolean() && exclusive) {  // draft 4: true makes minimum or maximum exclusive
      auto& known = low ? bounds.first : bounds.second;
      if (known && number->get<bool>()) known->exclusive = true;
      return;
    }
    if (!number->is_number()) refuse(place, "expected a number");
    const auto parsed = number_bound(*number, exclusive);
    if (!parsed) refuse(place, "the exponent is out of bounds: expected -30 to 30");
    auto& known = low ? bounds.first : bounds.second;
    const char* other = low ? "minimum" : "maximum";
    const bool sharper = !known || (low ? *number >= schema[other] : *number <= schema[other]);
    if (sharper) known = parsed;
  };
  bound("minimum", false, true);
  bound("exclusiveMinimum", true, true);
  bound("maximum", false, false);
  bound("exclusiveMaximum", true, false);
  if (const Json* format = find(schema, "format"); format && *format == Json("int32")) {
    if (!bounds.first) bounds.first = number_bound(INT32_MIN, false);
    if (!bounds.second) bounds.second = number_bound(INT32_MAX, false);
  }
  if (!bounds.first && !bounds.second) return integer ? parts_.integer() : parts_.number();
  return integer ? integer_between(rules_, bounds) : number_between(rules_, bounds);
}

}  // namespace skald
