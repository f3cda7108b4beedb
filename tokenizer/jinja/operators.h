// What Python's operators do to values, and how Jinja finds attributes and elements.
#pragma once

#include <string_view>

#include "tokenizer/jinja/ast.h"
#include "tokenizer/jinja/context.h"
#include "tokenizer/jinja/value.h"

namespace skald::jinja {

bool equal(Context& context, const Value& a, const Value& b);
bool less(Context& context, const Value& a, const Value& b);  // an Error where they have no order
bool compare(Context& context, CompareOp op, const Value& a, const Value& b);
bool contains(Context& context, const Value& container, const Value& item);

Value binary(Context& context, BinaryOp op, const Value& a, const Value& b);
Value unary(Context& context, UnaryOp op, const Value& a);

// object.name, object[key]; undefined where there is none.
Value get_attribute(Context& context, const Value& object, std::string_view name);
Value get_item(Context& context, const Value& object, const Value& key);
Value slice(Context& context, const Value& object, const Value& start, const Value& stop,
            const Value& step);

void need_defined(Context& context, const Value& value);  // an Error where it is not
int64_t length(Context& context, const Value& value);
// What a loop goes over, always a sequence: a dict's keys, a text's characters.
Value to_sequence(Context& context, const Value& value);

std::string escape_html(std::string_view text);
// Python's replace: an empty `what` is found between all characters; most below 0: all.
std::string replace_text(Context& context, std::string_view text, std::string_view what,
                         std::string_view by, int64_t most);

}  // namespace skald::jinja
