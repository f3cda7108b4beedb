// Python's operators on values, and Jinja's lookup of attributes and elements.
#pragma once

#include <string_view>

#include "tokenizer/jinja/ast.h"
#include "tokenizer/jinja/context.h"
#include "tokenizer/jinja/value.h"

namespace skald::jinja {

bool equal(Context& context, const Value& a, const Value& b);
// Throws an Error if the values have no order
bool less(Context& context, const Value& a, const Value& b);
bool compare(Context& context, CompareOp op, const Value& a, const Value& b);
bool contains(Context& context, const Value& container, const Value& item);

Value binary(Context& context, BinaryOp op, const Value& a, const Value& b);
Value unary(Context& context, UnaryOp op, const Value& a);

// object.name and object[key]; an undefined value if missing.
Value get_attribute(Context& context, const Value& object, std::string_view name);
Value get_item(Context& context, const Value& object, const Value& key);
Value slice(Context& context, const Value& object, const Value& start, const Value& stop,
            const Value& step);

void need_defined(Context& context, const Value& value);  // throws an Error if it is undefined
int64_t length(Context& context, const Value& value);
// The elements of a loop, always a sequence: a dict's keys, a string's characters.
Value to_sequence(Context& context, const Value& value);

std::string escape_html(std::string_view text);
// Python's replace: an empty `what` matches between all characters; most < 0: all matches.
std::string replace_text(Context& context, std::string_view text, std::string_view what,
                         std::string_view by, int64_t most);

}  // namespace skald::jinja
