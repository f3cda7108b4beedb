// The grammar of JSON's syntax, from which the grammars of schemas are built.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/files/json_fwd.h"
#include "engine/grammar/char_dfa.h"
#include "engine/grammar/regex.h"
#include "engine/grammar/rules.h"

namespace skald {

// Makes nodes of JSON's syntax in one Rules. Nodes that are used often are rules.
class JsonParts {
 public:
  using NodeId = grammar::NodeId;
  using RuleId = grammar::RuleId;

  explicit JsonParts(grammar::Rules& rules);

  NodeId space() { return rules_.call(space_); }  // nothing, a space, or a newline with indentation
  NodeId string() { return rules_.call(string_); }
  NodeId number() { return rules_.call(number_); }
  NodeId number_from_0() { return rules_.call(number_from_0_); }
  NodeId integer() { return rules_.call(integer_); }
  NodeId plain_integer() { return rules_.call(plain_integer_); }  // without a point
  NodeId boolean() { return rules_.choice({rules_.text("true"), rules_.text("false")}); }
  NodeId any() { return rules_.call(any_); }
  NodeId any_object() { return rules_.call(object_); }
  NodeId any_array() { return rules_.call(array_); }

  NodeId literal(const Json& value) { return rules_.text(dump(value)); }
  NodeId member(NodeId key, NodeId value);  // "key": value
  NodeId comma();                           // with white space after it
  // `least` to `most` items with commas between them, in `open` and `close`.
  NodeId list(std::string_view open, NodeId item, uint32_t least, uint32_t most,
              std::string_view close);

  // Strings of a length in characters, that match an expression, or that are none of `texts`.
  NodeId string_of_length(uint32_t least, uint32_t most);
  NodeId string_by(const grammar::Regex& regex);
  NodeId string_by(const grammar::CharDfa& dfa);
  NodeId string_except(std::vector<std::string> texts);

 private:
  NodeId quoted(NodeId content);
  NodeId plain_chars(const grammar::CharClass& chars);
  NodeId make_plain_chars(const grammar::CharClass& chars);
  NodeId except(const std::vector<std::string>& texts);
  void define_string();
  void define_numbers();

  grammar::Rules& rules_;
  RuleId space_, char_, string_, number_, number_from_0_, integer_, plain_integer_, any_, object_,
      array_;
  std::map<std::vector<std::pair<char32_t, char32_t>>, NodeId> plain_chars_;
};

// A bound of a number, in decimal digits.
struct NumberBound {
  bool negative = false;
  std::string whole, fraction;  // without leading and trailing zeros
  bool exclusive = false;
  bool operator==(const NumberBound&) const = default;
};
using NumberBounds = std::pair<std::optional<NumberBound>, std::optional<NumberBound>>;

// Returns nothing if the number is too large or too small for the grammar.
std::optional<NumberBound> number_bound(const Json& number, bool exclusive);

grammar::Regex number_between(const NumberBounds& bounds);
// `zeros`: a point and zeros may follow.
grammar::Regex integer_between(const NumberBounds& bounds, bool zeros);
grammar::Regex integer_zeros();  // nothing, or a point and zeros

// The regular expression of a `format` such as "date-time"; nullopt: the format allows any string.
// Every string that matches is valid.
std::optional<std::string> format_pattern(std::string_view format);

}  // namespace skald
