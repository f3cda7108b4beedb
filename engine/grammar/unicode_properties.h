// Classes of characters by a property of Unicode, as ECMAScript names them between the braces of
// \p{…}:
//
//   L  Letter  gc=Lu  General_Category=Uppercase_Letter  digit    general categories
//   Script=Greek  sc=Grek  Script_Extensions=Greek  scx=Grek      scripts
//   Any  ASCII  Assigned  Alphabetic  White_Space  Emoji …        binary properties
//
// The version of Unicode is that of the PCRE2 library. Not thread-safe.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "engine/grammar/rules.h"

namespace skald::grammar {

class UnicodeProperties {
 public:
  // nullptr: ECMAScript or the library knows no such property. A property takes milliseconds when
  // it is asked for first. The class lives as long as this object.
  const CharClass* find(std::string_view name);

 private:
  std::optional<CharClass> search(const std::string& spelling);
  char32_t character_at(size_t at) const;
  char32_t character_before(size_t at) const;

  std::string characters_;  // all of them, in order, as UTF-8
  std::map<std::string, std::optional<CharClass>, std::less<>> known_;
};

}  // namespace skald::grammar
