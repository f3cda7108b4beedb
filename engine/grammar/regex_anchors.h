// ^ and $ in a parsed expression become part of its structure.
#pragma once

#include "engine/grammar/regex.h"

namespace skald::grammar {

// Thrown where an anchor stands in a part that is repeated a number of times.
struct UnplacedAnchor {};

// The same texts without Begin and End, with what may stand before and after a match.
Regex place_anchors(const Regex& regex, RegexMatch match);

}  // namespace skald::grammar
