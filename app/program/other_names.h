// Flags and commands that users of llama.cpp and ollama type and that skald calls otherwise or does
// not need, each with a line that says what to use.
#pragma once

#include <span>
#include <string_view>
#include <vector>

namespace skald {

struct OtherName {
  std::vector<std::string_view> typed;
  std::string_view advice;  // a sentence without its full stop
};

std::span<const OtherName> other_flags();
std::span<const OtherName> other_commands();

// The advice for a name of the list; empty if it has none.
std::string_view advice_for(std::string_view typed, std::span<const OtherName> names);

}  // namespace skald
