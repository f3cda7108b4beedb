// The string languages of a schema: patterns and formats, each parsed once.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "app/schema/forms.h"
#include "engine/grammar/char_dfa.h"

namespace skald {

class Languages {
 public:
  // The strings that contain a match. Throws Error(Exit::Usage) that begins with `place`.
  uint32_t of_pattern(const std::string& pattern, const std::string& place);
  // nullopt: the format allows every string.
  std::optional<uint32_t> of_format(const std::string& format);

  const grammar::Regex& regex(uint32_t language) const { return languages_[language].regex; }
  // nullptr if it is too large.
  const grammar::CharDfa* dfa(uint32_t language);
  // Throws Error(Exit::Usage) if the language is too large.
  bool matches(uint32_t language, const std::string& text);

 private:
  struct Language {
    grammar::Regex regex;
    std::string place;
    bool tried = false;
    std::optional<grammar::CharDfa> dfa = {};
  };
  std::map<std::string, uint32_t> numbers_;
  std::deque<Language> languages_;
  grammar::UnicodeProperties properties_;
};

}  // namespace skald
