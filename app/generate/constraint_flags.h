// The flags that make the output follow a form: -j with --strict-schema and --any-order, --format,
// --regex, --grammar.
#pragma once

#include <optional>
#include <string>

#include "engine/grammar/rules.h"

namespace skald {

class Command;

struct ConstraintFlags {
  std::string schema, format, regex, grammar;
  bool strict_schema = false, any_order = false;
};

void add_constraint_flags(Command& command, ConstraintFlags& flags);

// The rules of the flag that is given; nothing without such a flag. Says on stderr which parts of a
// schema have no effect. Throws Error(Exit::Usage) for rules that cannot be read, and for two
// flags.
std::optional<grammar::Rules> constraint_rules(const ConstraintFlags& flags);

}  // namespace skald
