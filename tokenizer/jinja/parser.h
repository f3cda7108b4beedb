// From tokens to a tree. Refuses what Jinja refuses, names tags that skald does not have, and lets
// nothing lie in each other deeper than kMostNesting.
#pragma once

#include <string_view>

#include "tokenizer/jinja/ast.h"
#include "tokenizer/jinja/lexer.h"

namespace skald::jinja {

inline constexpr int kMostNesting = 200;

Tree parse(std::string_view text, const Source& source);

}  // namespace skald::jinja
