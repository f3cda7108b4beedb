#include "app/generate/constraint_flags.h"

#include <cstdio>

#include "app/files/input.h"
#include "app/files/json.h"
#include "app/program/command.h"
#include "app/schema/json_schema.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "engine/grammar/gbnf.h"
#include "engine/grammar/regex.h"

namespace skald {

void add_constraint_flags(Command& command, ConstraintFlags& flags) {
  const auto option = [&](const char* names, std::string& value, const char* type,
                          const char* description) {
    return command.option(names, value, description).type_name(type).group(kChangesOutput);
  };
  option("-j,--json-schema", flags.schema, "FILE|JSON", "Write JSON that is valid by this schema")
      .check(not_empty());
  command
      .flag("--strict-schema", flags.strict_schema,
            "Refuse a schema with keywords that are unknown or not kept exactly")
      .group(kChangesOutput);
  command
      .flag("--any-order", flags.any_order, "Write the members of a schema's objects in any order")
      .group(kChangesOutput);
  option("--format", flags.format, "json", "Write a JSON value").one_of({"json"});
  option("--regex", flags.regex, "REGEX", "Write a text that this expression matches as a whole");
  option("--grammar,--grammar-file", flags.grammar, "FILE|GBNF",
         "Write a text by this grammar, in llama.cpp's notation")
      .check(not_empty());
}

std::optional<grammar::Rules> constraint_rules(const ConstraintFlags& flags) {
  const int given =
      !flags.schema.empty() + !flags.format.empty() + !flags.regex.empty() + !flags.grammar.empty();
  if (flags.schema.empty() && (flags.strict_schema || flags.any_order)) {
    fail(Exit::Usage, flags.any_order ? "--any-order" : "--strict-schema",
         " is for a JSON schema; give one by -j");
  }
  if (given == 0) return std::nullopt;
  if (given > 1) {
    fail(Exit::Usage,
         "the output's form is given twice; use one of: -j, --format, --regex, --grammar");
  }
  if (!flags.format.empty()) return json_rules();
  if (!flags.regex.empty()) return grammar::regex_rules(flags.regex, "--regex");
  if (!flags.grammar.empty()) {
    const bool text = flags.grammar.find("::=") != std::string::npos;
    return grammar::parse_gbnf(text ? flags.grammar : read_text(flags.grammar),
                               text ? "--grammar" : printable(flags.grammar));
  }
  const bool text = flags.schema.find_first_of("{}\n") != std::string::npos ||
                    flags.schema == "true" || flags.schema == "false";
  const std::string source = text ? "--json-schema" : printable(flags.schema);
  const Json schema = parse_user_json(text ? flags.schema : read_text(flags.schema), source);
  SchemaRules result = json_schema_rules(
      schema, source, {.strict = flags.strict_schema, .any_order = flags.any_order});
  for (const std::string& note : result.notes) std::fprintf(stderr, "skald: %s\n", note.c_str());
  return std::move(result.rules);
}

}  // namespace skald
