// The pieces of JSON's own syntax that schemas are put together from.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/files/json.h"
#include "engine/grammar/regex.h"
#include "engine/grammar/rules.h"

namespace skald {

// Nodes of JSON in one Rules; rules of their own where they are used often.
class JsonParts {
 public:
  using NodeId = grammar::NodeId;
  using RuleId = grammar::RuleId;

  explicit JsonParts(grammar::Rules& rules);

  NodeId space() { return rules_.call(space_); }  // none, one, or a new line
  NodeId string() { return rules_.call(string_); }
  NodeId number() { return rules_.call(number_); }
  NodeId integer() { return rules_.call(integer_); }
  NodeId boolean() { return rules_.choice({rules_.text("true"), rules_.text("false")}); }
  NodeId any() { return rules_.call(any_); }
  NodeId any_object() { return rules_.call(object_); }
  NodeId any_array() { return rules_.call(array_); }

  NodeId literal(const Json& value) { return rules_.text(dump(value)); }
  NodeId member(NodeId key, NodeId value);  // "key": value
  NodeId comma();                           // and space
  // open, items with commas between them, least to most of them, close
  NodeId list(std::string_view open, NodeId item, uint32_t least, uint32_t most,
              std::string_view close);

  // A string of so many characters; by an expression; with any text but these.
  NodeId string_of_length(uint32_t least, uint32_t most);
  NodeId string_by(const grammar::Regex& regex);
  NodeId string_except(std::vector<std::string> texts);

 private:
  NodeId quoted(NodeId content);
  NodeId plain_chars(const grammar::CharClass& chars);
  NodeId except(const std::vector<std::string>& texts, size_t begin, size_t end, size_t at);
  void define_string();
  void define_numbers();

  grammar::Rules& rules_;
  RuleId space_, char_, string_, number_, integer_, any_, object_, array_;
};

// Bounds of a number: decimal digits, as JSON writes them.
struct NumberBound {
  bool negative = false;
  std::string whole, fraction;  // without leading and trailing zeros
  bool exclusive = false;
};
using NumberBounds = std::pair<std::optional<NumberBound>, std::optional<NumberBound>>;

// Nothing where its digits are too many.
std::optional<NumberBound> number_bound(const Json& number, bool exclusive);

grammar::NodeId number_between(grammar::Rules& rules, const NumberBounds& bounds);
grammar::NodeId integer_between(grammar::Rules& rules, const NumberBounds& bounds);

// The expression of a format ("date-time"); nullptr: any string. Texts by it are valid; not all
// valid ones are by it.
bool is_format(std::string_view format);
const char* format_pattern(std::string_view format);

}  // namespace skald
