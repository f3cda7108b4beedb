// Values as strings, exactly as Python prints them: str(), repr(), json.dumps() and "%". The result
// may be much larger than the value (shared lists are printed each time), so all functions count
// against the limits.
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
  bool lines = false;  // one element on each line
  std::string indent;  // for each level, with `lines`
  std::string item_separator = ", ", key_separator = ": ";
};
std::string to_json(Context& context, const Value& value, const JsonStyle& style);

// format % arguments. A tuple provides one argument for each place, a dict named arguments; any
// other value is the only argument.
std::string percent_format(Context& context, std::string_view format, const Value& arguments);
// Python's "{} {0} {name:>8}".format(...)
std::string brace_format(Context& context, std::string_view format, const Arguments& arguments);

}  // namespace skald::jinja
