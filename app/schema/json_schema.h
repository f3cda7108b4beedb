// JSON schemas as grammars of the JSON texts that they allow, for output that is written by them.
//
// The texts are valid by the schema, but not all valid texts: members come in the order of
// `properties`; members and items that the schema does not speak of come only where it asks for
// them (additionalProperties, items), or says nothing about members or items at all; white space is
// a space or one newline with up to 20 spaces or tabs; numbers have up to 16 digits before the
// point, 16 after it, and two in the exponent, so that each fits a double.
// A keyword that would change what is valid and is not known here is Error(Exit::Usage) with its
// place, as in "#/properties/age/not".
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/files/json.h"
#include "engine/grammar/rules.h"

namespace skald {

struct SchemaRules {
  grammar::Rules rules;
  std::vector<std::string> notes;  // what is read otherwise than written, one line each
};

// `source` is what messages call the schema. OpenAI's {"name", "schema", "strict"} is taken too.
SchemaRules json_schema_rules(const Json& schema, const std::string& source);

// Any JSON value; or any object, which is OpenAI's json_object.
grammar::Rules json_rules();
grammar::Rules json_object_rules();

// OpenAI's response_format: {"type": "text"} (nothing), json_object, or json_schema.
std::optional<SchemaRules> response_format_rules(const Json& format, const std::string& source);

// JSON that a user wrote, as Error(Exit::Usage) with line and column where it is none.
Json parse_user_json(std::string_view text, const std::string& source);

}  // namespace skald
