// GBNF, the grammars that llama.cpp reads:
//
//   root ::= "yes" | "no" [ \t\n]* number?     # a comment
//   number ::= [0-9]{1,3} ("." [0-9]+)? .
//
// A rule is a name (letters, digits, - and _), ::= and alternatives. It continues on the next line
// after ::= or |, inside brackets, and if the next line begins with |. Strings and classes may
// contain line ends, and spaces may stand before a repetition. In strings and classes, the
// escapes \n \r \t \\ \" \[ \] \xHH \uHHHH \UHHHHHHHH stand for characters. "." is any character,
// including a newline. The rule "root" describes the whole text. A rule may begin with itself.
// <think> and <[1000]> are tokens of the model by name and number, !<think> is any other token.
#pragma once

#include <string>
#include <string_view>

#include "engine/grammar/rules.h"

namespace skald::grammar {

// Throws Error(Exit::Usage) with line and column of `source`.
Rules parse_gbnf(std::string_view text, const std::string& source);

}  // namespace skald::grammar
