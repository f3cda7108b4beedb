// Splits a template's text into tokens. Whitespace around tags is removed here, with the settings
// of transformers: a newline after a block tag (trim_blocks), spaces before a block tag on its line
// (lstrip_blocks), and the effect of "-" and "+" in tags.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/error.h"

namespace skald::jinja {

enum class TokenType : uint8_t {
  Data,           // text between tags
  BlockBegin,     // {%
  BlockEnd,       // %}
  VariableBegin,  // {{
  VariableEnd,    // }}
  Name,
  String,
  Integer,
  Float,
  Operator,
  End,
};

struct Token {
  TokenType type;
  int line;
  std::string text;  // String: without quotes and escapes, with \n as newline
};

// The name of a template and its Errors during parsing.
struct Source {
  std::string name;

  template <class... Parts>
  [[noreturn]] void refuse(int line, Parts&&... why) const {
    fail(Exit::Model, name, ": line ", line, ": ", std::forward<Parts>(why)...);
  }
};

std::vector<Token> tokenize(std::string_view text, const Source& source);

}  // namespace skald::jinja
