// What may stand before and after a match becomes part of the expression.
#pragma once

#include "engine/grammar/regex.h"

namespace skald::grammar {

// An expression for the whole text. ^ at an alternative's begin and $ at its end disappear; others
// stay, and CharDfa understands them.
Regex whole_text(const Regex& regex, RegexMatch match);

}  // namespace skald::grammar
