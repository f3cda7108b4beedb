// Regular expressions as grammar rules. Only constructs that describe a set of texts are supported:
//
//   a  \.  .  [a-z_]  [^"]  \d \w \s \D \W \S  \n \r \t \f \v \0 \xHH \uHHHH \u{H}
//   \p{Lu}  \P{Script=Greek}  (unicode_properties.h)
//   (x)  (?:x)  (?<name>x)  x|y  x*  x+  x?  x{3}  x{3,}  x{3,5}
//
// The lazy x*? means the same as x*. \d and \w are those of ASCII, \s and "." those of ECMAScript.
// ^ and $ may stand anywhere. (?=x) and (?!x) may stand at the top level of an alternative.
// Lookbehind, references, word borders, flags and possessive repetitions are Errors.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/grammar/rules.h"
#include "engine/grammar/unicode_properties.h"

namespace skald::grammar {

// A parsed expression, before it becomes rules. Its lengths can be computed and restricted.
struct Regex {
  // Look: whether the rest of the text matches `parts[0]` as a whole; least = 0: must not.
  // Begin, End: ^ and $ that stand inside an alternative.
  enum class Kind : uint8_t { Class, Sequence, Choice, Repeat, Look, Begin, End };
  Kind kind = Kind::Sequence;
  CharClass chars = {};          // Class
  uint32_t least = 0, most = 0;  // Repeat
  std::vector<Regex> parts = {};
};

namespace make {
Regex one_of(CharClass chars);
Regex sequence(std::vector<Regex> parts);
Regex choice(std::vector<Regex> parts);  // no part: matches nothing
Regex repeat(Regex part, uint32_t least, uint32_t most);
}  // namespace make

enum class RegexMatch : uint8_t {
  Whole,     // the text is a match
  Anywhere,  // the text contains a match; ^ and $ restrict the place (JSON schema's patterns)
  Begin,  // the text begins with a match; ^ is the begin of the text that surrounds it (lookahead)
};

// True if the expression contains a Look, Begin or End, which add_regex() refuses and CharDfa
// understands.
bool needs_automaton(const Regex& regex);

// True if a reader of the expression may be in many copies of one part at once: it counts, and it
// has a repetition without an upper limit. Then an automaton with a single way on (CharDfa) is
// quicker, if it is not too large.
bool counts_beside_loops(const Regex& regex);

// Throws Error(Exit::Usage) with the position in `source`.
// `properties` are those of \p{…}; they may be kept for the next expression.
Regex parse_regex(std::string_view text, const std::string& source, RegexMatch match,
                  UnicodeProperties& properties);
Regex parse_regex(std::string_view text, const std::string& source, RegexMatch match);

struct RegexLength {
  uint64_t least, most;  // in characters; UINT64_MAX: unbounded
};
RegexLength length_of(const Regex& regex);

// The same expression restricted to texts of least to most characters. nullopt if the expression is
// not essentially one repetition. An empty Choice if no text remains.
std::optional<Regex> with_length(const Regex& regex, uint64_t least, uint64_t most);

// Writes characters of the expression into the text: unchanged, or escaped as in a JSON string.
using WriteChars = std::function<NodeId(Rules&, const CharClass&)>;
NodeId add_regex(Rules& rules, const Regex& regex, const WriteChars& write);

// Parses an expression that must match the whole text, and makes it the root rule.
Rules regex_rules(std::string_view text, const std::string& source);

}  // namespace skald::grammar
