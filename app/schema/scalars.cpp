// Strings and numbers of a schema.
#include <algorithm>

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
  if (pattern && !pattern->is_string()) refuse(path + "/pattern", "expected a text");
  if (format && !format->is_string()) refuse(path + "/format", "expected a text");
  const char* by_format = nullptr;
  if (format) {
    const auto name = format->get<std::string>();
    if (!is_format(name)) {
      refuse(path + "/format", concat("the format '", printable(name, 60),
                                      "' is not known here; a pattern can say it"));
    }
    by_format = format_pattern(name);
  }
  if (pattern && by_format) {
    refuse(path + "/pattern", "a pattern and a format that must both hold are not supported");
  }
  if (!pattern && !by_format) return parts_.string_of_length(least, most);

  const std::string keyword = pattern ? "/pattern" : "/format";
  const std::string text = pattern ? pattern->get<std::string>() : std::string(by_format);
  const bool limited = least > 0 || most != kUnbounded;
  // With a limit only one end is open, so that there is one way to count.
  const RegexMatch match = !pattern  ? RegexMatch::Whole
                           : limited ? RegexMatch::Begin
                                     : RegexMatch::Anywhere;
  const grammar::Regex regex = parse_regex(text, concat(source_, ": ", path, keyword), match);
  if (!limited) return parts_.string_by(regex);
  const auto bounded = with_length(regex, least, most == kUnbounded ? UINT64_MAX : most);
  if (!bounded) {
    refuse(
        path + keyword,
        "with minLength or maxLength only one part of it may be repeated without a fixed number; "
        "say the length in the pattern");
  }
  return parts_.string_by(*bounded);
}

NodeId SchemaCompiler::build_number(const Json& schema, bool integer, const std::string& path) {
  if (const Json* step = find(schema, "multipleOf")) {
    if (!step->is_number() || step->get<double>() != 1) {
      refuse(path + "/multipleOf", "is supported only as 1");
    }
    integer = true;
  }
  NumberBounds bounds;
  const auto bound = [&](const char* keyword, bool exclusive, bool low) {
    const Json* number = find(schema, keyword);
    if (!number) return;
    const std::string place = concat(path, "/", keyword);
    if (number->is_boolean() && exclusive) {  // draft 4: whether minimum itself is excluded
      auto& known = low ? bounds.first : bounds.second;
      if (known && number->get<bool>()) known->exclusive = true;
      return;
    }
    if (!number->is_number()) refuse(place, "expected a number");
    const auto parsed = number_bound(*number, exclusive);
    if (!parsed) refuse(place, "is too large, or has too many digits");
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
