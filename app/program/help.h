// The layout of every --help: usage, description, options in groups with one line each, examples.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace skald {

// Groups of options: users see which options change the output and which only speed and memory.
inline constexpr const char* kChangesOutput = "Changes the output";
inline constexpr const char* kChangesSpeed = "Changes only speed and memory";
inline constexpr const char* kOther = "Other";

// Adds a subcommand with skald's help layout. `examples` are whole command lines.
CLI::App* add_command(CLI::App& program, const std::string& name, const std::string& description,
                      const std::vector<std::string>& examples);

void set_help_style(CLI::App& app);

// The groups of an app's options in the order of its help.
std::vector<std::string> help_groups(const CLI::App& app);

// Two optional positional words. Each is an option of its own, because CLI11 would split the
// value "[a, b]" of a list into two.
struct Words {
  std::string values[2];
  CLI::Option* options[2] = {};

  std::vector<std::string> given() const;
};
void add_words(CLI::App& command, Words& words, const std::string& first,
               const std::string& second);

// Flags with one dash and several letters that users of llama.cpp know, and skald's names for
// them. CLI11 would read each letter as a flag.
struct KnownName {
  std::string_view typed, meant;
};
inline constexpr KnownName kOneDashNames[] = {{"-sys", "--system-prompt"}};

// Checks of an option's value. Numbers are decimal: no 0x10, no nan, no spaces.
// A whole number from `least` to `most`. Use it with transform(): it removes leading zeros.
CLI::Validator in_range(int64_t least, int64_t most);
// A finite number that is `good`; `expected` describes it in the error.
CLI::Validator number_where(std::function<bool(double)> good, std::string expected);
CLI::Validator not_empty();  // catches an empty variable in a script

}  // namespace skald
