// One look for every --help: usage, what it does, options in groups on one line each, examples
// last.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace skald {

// Groups that options are sorted into, so that nobody has to guess which ones change the text.
inline constexpr const char* kChangesOutput = "Changes the output";
inline constexpr const char* kChangesSpeed = "Changes only speed and memory";
inline constexpr const char* kOther = "Other";

// A subcommand with skald's help; `examples` are whole command lines.
CLI::App* add_command(CLI::App& program, const std::string& name, const std::string& description,
                      const std::vector<std::string>& examples);

void set_help_style(CLI::App& app);

// The groups of an app's options in the order of its help.
std::vector<std::string> help_groups(const CLI::App& app);

// Two optional words without a flag. One option each: in a list CLI11 would take
// "[a, b]" apart.
struct Words {
  std::string values[2];
  CLI::Option* options[2] = {};

  std::vector<std::string> given() const;
};
void add_words(CLI::App& command, Words& words, const std::string& first,
               const std::string& second);

// Names with one dash and several letters that users of llama.cpp know, and their own: CLI11 would
// read the letters as flags of their own.
struct KnownName {
  std::string_view typed, meant;
};
inline constexpr KnownName kOneDashNames[] = {{"-sys", "--system-prompt"}};

// What an option's value must be. Numbers are decimal: no 0x10, no nan, no spaces.
// A whole number, bounds included; for transform(), since it takes leading zeros away.
CLI::Validator in_range(int64_t least, int64_t most);
CLI::Validator number_where(std::function<bool(double)> good, std::string expected);  // and finite
CLI::Validator not_empty();  // a path that a script left empty by mistake means nothing

}  // namespace skald
