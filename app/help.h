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

CLI::Validator in_range(int64_t least, int64_t most);  // bounds included

}  // namespace skald
