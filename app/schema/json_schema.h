// Turns a JSON schema into a grammar, by which constrained output is generated.
//
// A text of the grammar is valid by the schema, except where a note says so. The grammar does not
// have all valid texts:
// - Members come in the order of `properties`, then the others (SchemaOptions::any_order).
// - White space is one space, or one newline with up to 20 spaces or tabs.
// - Numbers have up to 20 digits before and after the point, and two in the exponent.
// A schema that cannot be read throws Error(Exit::Usage) with its place, such as
// "#/properties/age/type".
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/files/json_fwd.h"
#include "engine/grammar/rules.h"

namespace skald {

struct SchemaOptions {
  bool strict = false;     // a keyword that is unknown or not kept exactly is an error
  bool any_order = false;  // members may come in any order
};

struct SchemaRules {
  grammar::Rules rules;
  // Keywords that are read less strictly, one line each, and a line with the unknown keywords
  std::vector<std::string> notes;
};

// `source` names the schema in messages. OpenAI's {"name", "schema", "strict"} is accepted too.
SchemaRules json_schema_rules(const Json& schema, const std::string& source,
                              SchemaOptions options = {});

// Grammars of any JSON value, and of any JSON object (OpenAI's json_object).
grammar::Rules json_rules();
grammar::Rules json_object_rules();

// Reads OpenAI's response_format, whose type is text (returns nothing), json_object or json_schema.
std::optional<SchemaRules> response_format_rules(const Json& format, const std::string& source);

// Parses JSON that a user wrote. Throws Error(Exit::Usage) with line and column if it is not valid.
Json parse_user_json(std::string_view text, const std::string& source);

}  // namespace skald
