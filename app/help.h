// One look for every --help: usage, what it does, options in groups on one line each, examples
// last.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace skald {

// Groups that options are sorted into, so that nobody has to guess which ones change the text.
inline constexpr const char* kChangesOutput = "Changes the output";
inline constexpr const char* kChangesSpeed = "Changes only speed and memory";
inline constexpr const char* kOther = "Other";

// A subcommand with skald's help; `examples` are whole command lines.
CLI::App* add_command(CLI::App& program, const std::string& name, const std::string& description,
                      const std::vector<std::string>& examples);

void set_help_style(CLI::App& app);

// What an option's value must be. Numbers are decimal: no 0x10, no nan, no spaces.
CLI::Validator in_range(int64_t least, int64_t most);  // a whole number, bounds included
CLI::Validator number_where(bool (*good)(double), const char* expected);  // and finite
CLI::Validator not_empty();  // a path that a script left empty by mistake means nothing

}  // namespace skald
