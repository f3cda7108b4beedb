// Turns a JSON schema into a grammar, by which constrained output is generated.
//
// Every text of the grammar is valid by the schema, but the grammar does not have all valid texts:
// - Members come in the order of `properties`.
// - Unnamed members and items come only if additionalProperties or items allows them explicitly, or
//   if the schema says nothing at all about members or items.
// - White space is one space, or one newline with up to 20 spaces or tabs.
// - Numbers have up to 16 digits before the point, 16 after it, and two in the exponent, so that
//   each fits a double.
// A keyword that constrains values and is not supported throws Error(Exit::Usage) with its place,
// such as "#/properties/age/not".
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/files/json_fwd.h"
#include "engine/grammar/rules.h"

namespace skald {

struct SchemaRules {
  grammar::Rules rules;
  std::vector<std::string> notes;  // keywords that are read less strictly, one line each
};

// `source` names the schema in messages. OpenAI's {"name", "schema", "strict"} is accepted too.
SchemaRules json_schema_rules(const Json& schema, const std::string& source);

// Grammars of any JSON value, and of any JSON object (OpenAI's json_object).
grammar::Rules json_rules();
grammar::Rules json_object_rules();

// Reads OpenAI's response_format, whose type is text (returns nothing), json_object or json_schema.
std::optional<SchemaRules> response_format_rules(const Json& format, const std::string& source);

// Parses JSON that a user wrote. Throws Error(Exit::Usage) with line and column if it is not valid.
Json parse_user_json(std::string_view text, const std::string& source);

}  // namespace skald
