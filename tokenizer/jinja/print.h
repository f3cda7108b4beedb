// Values as text, to the letter as Python prints them: str(), repr(), json.dumps() and "%" with a
// tuple. What they make may be much larger than the value (shared lists are printed each time), so
// all of them count against the limits.
#pragma once

#include <string>
#include <string_view>

#include "tokenizer/jinja/context.h"
#include "tokenizer/jinja/value.h"

namespace skald::jinja {

std::string float_text(double value);  // "1.0", "1e+16", "nan"

std::string to_text(Context& context, const Value& value);  // str()
std::string repr(Context& context, const Value& value);

struct JsonStyle {
  bool ensure_ascii = false, sort_keys = false;
  bool lines = false;  // one element a line
  std::string indent;  // of each level, with lines
  std::string item_separator = ", ", key_separator = ": ";
};
std::string to_json(Context& context, const Value& value, const JsonStyle& style);

// format % arguments: a tuple gives one each, a dict by name, anything else is the only one.
std::string percent_format(Context& context, std::string_view format, const Value& arguments);
// "{} {0} {name:>8}".format(...)
std::string brace_format(Context& context, std::string_view format, const Arguments& arguments);

}  // namespace skald::jinja
