// A number with its noun: "1 line", "2 lines".
#pragma once

#include <string>
#include <string_view>

namespace skald {

// `noun` is the singular of a noun whose plural ends in s.
template <class Integer>
std::string counted(Integer number, std::string_view noun) {
  return std::to_string(number) + " " + std::string(noun) + (number == 1 ? "" : "s");
}

}  // namespace skald
