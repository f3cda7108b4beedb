// The flags by which a user says what the output must be like: -j, --format, --regex, --grammar.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "engine/grammar/rules.h"

namespace skald {

struct ConstraintFlags {
  std::string schema, format, regex, grammar;
};

void add_constraint_flags(CLI::App& command, ConstraintFlags& flags);

// The rules that the flags ask for; nothing without any. Says on stderr what is read otherwise than
// written. Throws Error(Exit::Usage) for what cannot be read, and for two at once.
std::optional<grammar::Rules> constraint_rules(const ConstraintFlags& flags);

}  // namespace skald
