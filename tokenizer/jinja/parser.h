// Parses tokens to a tree. Refuses what Jinja refuses and tags that skald does not support (the
// message names the tag), and limits nesting to kMostNesting.
#pragma once

#include <string_view>

#include "tokenizer/jinja/ast.h"
#include "tokenizer/jinja/lexer.h"

namespace skald::jinja {

inline constexpr int kMostNesting = 200;

Tree parse(std::string_view text, const Source& source);

}  // namespace skald::jinja
