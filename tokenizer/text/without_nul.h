// nlohmann's parser of JSON takes a NUL for the end of the text: what stands behind it would never
// be read.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace skald {

// The text to parse: itself, or kept in `changed` with another control character in the place of
// each NUL, so that the parser refuses it there.
inline std::string_view without_nul(std::string_view text, std::string& changed) {
  if (text.find('\0') == std::string_view::npos) return text;
  changed = text;
  std::replace(changed.begin(), changed.end(), '\0', '\1');
  return changed;
}

}  // namespace skald
