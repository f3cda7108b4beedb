#include "app/files/path_word.h"

#include <algorithm>
#include <cctype>

namespace skald {

bool looks_like_path(std::string_view word) {
  constexpr std::string_view kModel = ".gguf";
  const auto same = [](char a, char b) { return std::tolower(static_cast<unsigned char>(a)) == b; };
  if (word.size() >= kModel.size() && std::equal(kModel.rbegin(), kModel.rend(), word.rbegin(),
                                                 [&](char a, char b) { return same(b, a); })) {
    return true;
  }
  return word.find('/') != std::string_view::npos &&
         word.find_first_of(" \t\r\n<>") == std::string_view::npos;
}

}  // namespace skald
