// A template's text in tokens. Whitespace around tags goes away here, as transformers has it: a
// newline after a block tag (trim_blocks), spaces before one on its line (lstrip_blocks), and
// whatever "-" and "+" in a tag say.
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
  std::string text;  // of a String without quotes and escapes; newlines in it are \n
};

// A place in a template, for the Error that refuses it.
struct Source {
  std::string name;

  template <class... Parts>
  [[noreturn]] void refuse(int line, Parts&&... why) const {
    fail(Exit::Model, name, ": line ", line, ": ", std::forward<Parts>(why)...);
  }
};

std::vector<Token> tokenize(std::string_view text, const Source& source);

}  // namespace skald::jinja
