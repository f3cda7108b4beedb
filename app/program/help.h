// The layout of every --help: usage, description, flags in groups with one line each, examples.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "app/program/command.h"

namespace skald {

std::string help_text(const Command& command);

// What `skald` without arguments shows to a person: three things to type, in lines of at most 40
// columns.
std::string first_steps();

// The groups of a command's flags in the order of its help.
std::vector<std::string> help_groups(const Command& command);
std::vector<Option> flags_of_group(const Command& command, const std::string& group);

// Flags with one dash and several letters that users of llama.cpp know, and skald's names for
// them. CLI11 would read each letter as a flag.
struct KnownName {
  std::string_view typed, meant;
};
inline constexpr KnownName kOneDashNames[] = {
    {"-sys", "--system-prompt"}, {"-hf", "--hf-repo"},       {"-ngl", "--gpu-layers"},
    {"-ctk", "--cache-type-k"},  {"-ctv", "--cache-type-v"}, {"-ot", "--override-tensor"},
    {"-cmoe", "--cpu-moe"},      {"-ncmoe", "--n-cpu-moe"},  {"-md", "--model-draft"},
    {"-devd", "--device-draft"}};

}  // namespace skald
