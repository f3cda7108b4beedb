// Regular expressions as rules. The subset that says which texts there are, and nothing else:
//
//   a  \.  .  [a-z_]  [^"]  \d \w \s \D \W \S  \n \r \t \f \v \0 \xHH \uHHHH \u{H}
//   (x)  (?:x)  (?<name>x)  x|y  x*  x+  x?  x{3}  x{3,}  x{3,5}, and the lazy x*? which is the
//   same
//
// \d, \w and \s are ASCII's; "." is any character but a line break. ^ and $ stand at the begin and
// end of a choice that is in no group. Lookaround, references, word borders, flags, possessive
// repetitions and \p are Errors.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/grammar/rules.h"

namespace skald::grammar {

// What an expression says, before it is rules: its lengths can be asked for and limited.
struct Regex {
  enum class Kind : uint8_t { Class, Sequence, Choice, Repeat };
  Kind kind = Kind::Sequence;
  CharClass chars = {};          // Class
  uint32_t least = 0, most = 0;  // Repeat
  std::vector<Regex> parts = {};
};

enum class RegexMatch : uint8_t {
  Whole,     // the text is what the expression says
  Anywhere,  // it contains that, unless ^ and $ say more: JSON schema's patterns
  Begin,     // the same, but it begins with that
};

// Throws Error(Exit::Usage) with the place in `source`.
Regex parse_regex(std::string_view text, const std::string& source, RegexMatch match);

struct RegexLength {
  uint64_t least, most;  // characters; UINT64_MAX: any number
};
RegexLength length_of(const Regex& regex);

// The same expression for texts of these lengths only; nothing where that is not one repetition
// more or less. An empty Choice where no text is left.
std::optional<Regex> with_length(const Regex& regex, uint64_t least, uint64_t most);

// How characters are written in the text: as they are, or with escapes.
using WriteChars = std::function<NodeId(Rules&, const CharClass&)>;
NodeId add_regex(Rules& rules, const Regex& regex, const WriteChars& write);

// All of it, for a whole text.
Rules regex_rules(std::string_view text, const std::string& source);

}  // namespace skald::grammar
